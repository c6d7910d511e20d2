"""The command convicts four bugs and acquits their mends; each for the reason that its story tells."""

from __future__ import annotations

from dataclasses import replace

import pytest

from draftscope.servers.museum import picture, tour
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
        assert each["mended"]["verdict"].startswith("No difference found in 960 samples"), each["mended"]["verdict"]
        assert each["mended"]["greedy"]["differs"] == each["wrong"]["greedy"]["differs"] == ""
        assert each["mended"]["reported"]["tokens"] == 64
        assert each["mended"]["sampled"]["missed"]["variation"] < 0.07


@pytest.mark.slow
def test_beside_an_acquittal_stands_what_it_could_have_missed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tour, "PLAN", replace(tour.PLAN, samples=24))
    monkeypatch.setattr(picture, "DRAWS", 10)
    ran = command_line(capsys, "museum")()
    rows = [line for line in ran.out.splitlines() if "acquitted: no difference" in line]
    assert len(rows) == 4 and all("TV 0.3" in row and " nats" in row for row in rows), ran.out
