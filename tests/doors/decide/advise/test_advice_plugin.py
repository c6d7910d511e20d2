"""Advice about a drafter from elsewhere that is broken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import draftscope
from draftscope import DraftTree
from draftscope.advise.advise import advise
from draftscope.advise.question import Question
from draftscope.base import costs
from draftscope.base.costs import PLAIN
from draftscope.base.prompts import Prompt
from draftscope.base.steps import last
from draftscope.decode import calibration
from draftscope.decode.engine import DecodingEngine
from tests.drafters.test_plugin import INFO, Follow, plugged_in
from tests.support.models import made_calibration


class Raises(Follow):
    def propose(self, state: draftscope.State, depth: int) -> DraftTree:
        raise IndexError("somewhere")


def test_a_plugin_that_raises_ends_no_advice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny: DecodingEngine
) -> None:
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path / "cache"))
    drafting = dict.fromkeys([PLAIN, *calibration.drafting_of(tiny)], made_calibration().drafting["draft"])
    costs.save(made_calibration(measured_for=calibration.measured_for(tiny), drafting=drafting))
    plugged_in(monkeypatch, replace(INFO, create=Raises))
    last(calibration.calibration_of(tiny))
    question = Question(length=8, seconds=4.0)
    prompts = {"prompts": [Prompt("prompts", text) for text in ("abcab", "ddebc")]}
    report = advise(tiny, question, prompts, ["ngram", "follow"])
    assert any("follow was left out: The drafter 'follow' failed in propose" in note for note in report.notes)
    assert {each.candidate.drafter for each in report.predicted} == {"ngram"}
