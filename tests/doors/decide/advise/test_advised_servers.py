"""What an advice says to servers about a kind of head that is made up."""

from __future__ import annotations

import pytest

from draftscope.advise import servers as advised
from draftscope.advise.candidates import Candidate


@pytest.mark.usefixtures("glimpsed")
@pytest.mark.parametrize(
    "candidate", [Candidate("glimpse", 3), Candidate("wide-glimpse")], ids=lambda each: each.drafter
)
def test_servers_are_told_of_a_made_up_head_by_the_names_that_they_know(candidate: Candidate) -> None:
    settings = {ready.engine: ready.settings for ready in advised.ready(candidate, [])}
    assert '"method": "glimpse"' in settings["vLLM"] and "GLIMPSE" in settings["SGLang"]
    assert settings["llama.cpp"] == ""
