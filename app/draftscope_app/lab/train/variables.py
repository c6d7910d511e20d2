"""What `draftscope train` reads from the environment."""

from __future__ import annotations

from pydantic import Field

from draftscope_app.engine import variables


class Variables(variables.Variables):
    corpus: str = Field("", alias="DRAFTSCOPE_CORPUS", description="folder of training texts, for `draftscope train`")
