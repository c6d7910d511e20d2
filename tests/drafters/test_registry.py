"""Drafters by name: the table of built-in ones, what is known without torch, and what is refused is not half known."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from pydantic import Field

from draftscope.base.errors import PluginWarning
from draftscope.drafters import GammaOptions, find, known, problems
from draftscope.drafters.registry import BUILT_IN, known_options
from tests.drafters.test_plugin import INFO, Entry, plugged_in
from tests.drafters.test_plugin import clean as clean


def test_every_built_in_drafter_is_listed_by_its_name() -> None:
    assert list(BUILT_IN) == [find(name).name for name in BUILT_IN] == list(known())
    assert not any(info.source for info in known().values())


@pytest.mark.parametrize(
    "code",
    [
        "import draftscope.drafters",
        "from draftscope.drafters import GammaOptions, Control, adopt; adopt('ngram')",
        "from draftscope.drafters.registry import known_options, known_heads; known_options(), known_heads()",
        "from draftscope.drafters.registry import chain_of, trained_kinds; chain_of('topk-tree'), trained_kinds()",
        "from draftscope.drafters import problems; problems()",
    ],
)
def test_names_and_options_need_no_torch(code: str) -> None:
    subprocess.run([sys.executable, "-c", f"{code}; import sys; sys.exit('torch' in sys.modules)"], check=True)


class Stranger(GammaOptions):
    strange: int = Field(default=1, description="an option of a drafter that is refused")


def test_a_drafter_that_is_refused_adds_no_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """One with a built-in name was left out, and its options were on the command line and the page all the same."""
    plugged_in(monkeypatch, Entry(replace(INFO, name="suffix", options=Stranger), "theirs"))
    with pytest.warns(PluginWarning, match="'suffix' of my_package has the name of a built-in one"):
        assert "strange" not in known_options()
    assert find("suffix").source == "" and "built-in" in problems()["theirs"]
