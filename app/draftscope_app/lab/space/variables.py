"""What `draftscope space` reads from the environment."""

from __future__ import annotations

from pydantic import Field

from draftscope_app.engine import variables


class Variables(variables.Variables):
    token: str = Field("", alias="HF_TOKEN", repr=False, description="token for `draftscope space push`")
    zero: str = Field(
        "",
        alias="SPACES_ZERO_GPU",
        description="set on a Space with ZeroGPU; then the engine runs in the page's process",
    )
