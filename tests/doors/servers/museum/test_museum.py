"""The command convicts four bugs and acquits their mends; each for the reason that its story tells."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from draftscope.servers.museum import tour
from draftscope_app.cli import command_options
from tests.support.command import command_line

CONVICTED = {
    "vllm#55005": ["sampled"],
    "sglang#31214": ["sampled"],
    "llama.cpp#27972": ["log-probabilities"],
    "transformers#47932": ["sampled"],
}


# Each bug is clear after 16 samples, with a false alarm of one in a million however often one looks: a mend has several
# times as many. In 120 it would show, nineteen times of twenty, a total variation of .19.
SAMPLES, MISSED, CLEAR = 120, 0.2, 24


@pytest.mark.slow
def test_four_bugs_are_convicted_their_mends_acquitted_and_what_that_could_miss_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both forms of the answer are of one tour."""
    toured = tour.tour
    monkeypatch.setattr(tour, "PLAN", replace(tour.PLAN, samples=SAMPLES))
    monkeypatch.setattr(command_options, "load", cache(command_options.load))
    monkeypatch.setattr(tour, "tour", cache(lambda engine: list(toured(engine))))
    ran = command_line(capsys, "museum")("--json")
    assert ran.code == 0, ran.out + ran.err
    assert {each["number"]: each["wrong"]["differences"] for each in ran.json} == CONVICTED
    sampled = [each["wrong"]["sampled"]["samples"] for each in ran.json if CONVICTED[each["number"]] == ["sampled"]]
    assert len(sampled) == 3 and max(sampled) <= CLEAR
    for each in ran.json:
        assert each["mended"]["verdict"].startswith(f"No difference found in {SAMPLES} samples"), each["mended"][
            "verdict"
        ]
        assert each["mended"]["greedy"]["differs"] == each["wrong"]["greedy"]["differs"] == ""
        assert each["mended"]["reported"]["tokens"] == 64
        assert each["mended"]["sampled"]["missed"]["variation"] < MISSED
    shown = command_line(capsys, "museum")().out
    rows = [line for line in shown.splitlines() if "acquitted: no difference" in line]
    for row, each in zip(rows, ran.json, strict=True):
        missed = each["mended"]["sampled"]["missed"]
        assert f"TV {missed['variation']:.2g}, {missed['nats']:.2g} nats" in row, shown
