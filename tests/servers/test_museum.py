"""The command convicts four bugs and acquits their mends; each for the reason that its story tells."""

from __future__ import annotations

import pytest

from tests.support.command import command_line

CONVICTED = {
    "vllm#55005": ["sampled"],
    "sglang#31214": ["sampled"],
    "llama.cpp#27972": ["log-probabilities"],
    "transformers#47932": ["sampled"],
}


@pytest.mark.slow
def test_four_bugs_are_convicted_and_their_mends_acquitted(capsys: pytest.CaptureFixture[str]) -> None:
    ran = command_line(capsys, "museum")("--json")
    assert ran.code == 0, ran.out + ran.err
    assert {each["number"]: each["wrong"]["differences"] for each in ran.json} == CONVICTED
    for each in ran.json:
        assert each["mended"]["verdict"].startswith("No difference found in 120 samples"), each["mended"]["verdict"]
        assert each["mended"]["greedy"]["differs"] == each["wrong"]["greedy"]["differs"] == ""
        assert each["mended"]["reported"]["tokens"] == 64
