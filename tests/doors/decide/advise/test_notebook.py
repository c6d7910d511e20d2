"""Advice for Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftscope import DraftscopeError, Engine
from draftscope.advise.notebook import advice
from draftscope.base import costs
from draftscope.decode import calibration
from draftscope.decode.engine import DecodingEngine
from tests.support.models import made_calibration

PROMPTS = ["hello", "abcabcabcabc", "The sea was calm", "x"]


def test_advice_is_a_report(pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path))
    engine = Engine(pair.target, pair.draft, pair.tokenizer)
    drafting = dict.fromkeys([costs.PLAIN, *calibration.drafting_of(engine)], made_calibration().drafting["draft"])
    costs.save(made_calibration(measured_for=calibration.measured_for(engine), drafting=drafting))
    report = advice(engine, PROMPTS, ["ngram", "draft"], length=8, seconds=4.0, progress=False)
    assert report.summary.startswith(report.value.sentences[0])
    assert {"candidate", "tau", "predicted", "measured_low"} <= set(report.table)
    with pytest.raises(DraftscopeError, match="objective = 'speed': choose latency, throughput, cost, tail"):
        advice(engine, PROMPTS, objective="speed")
