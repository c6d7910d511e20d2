"""Experts that verify forwards read: counted by rows, as a recorded run's trace counts them."""

from __future__ import annotations

import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope.measure.bench import woken as module
from draftscope.measure.bench.systems import Case
from draftscope.measure.bench.woken import woken
from draftscope.trace.events import Experts
from tests.models.test_experts import PROMPT, lab_of


def test_a_dense_target_has_none(tiny: DecodingEngine) -> None:
    assert woken(tiny, [Case("k", 0, ((0, 1, 2),), 0.0)]) == []


def test_experts_are_those_of_the_trace_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GAMMAS", (1, 3))
    monkeypatch.setattr(module, "ROUNDS", 3)
    engine = lab_of("Mixtral")
    ids = tuple(engine.encode(PROMPT))
    found = woken(engine, [Case("k", 0, (ids,), 0.0), Case("k", 0, (ids, ids), 0.0)])
    assert [(each.rows, each.forwards) for each in found] == [(1, 3), (2, 3), (4, 3)]
    assert found[0].touched == found[0].active < found[-1].touched <= found[-1].of
    run = engine.decode(PROMPT, "draft", gamma=3, max_new_tokens=16)
    notes = [note for event in run.round_events[:3] for note in event.annotations if isinstance(note, Experts)]
    assert found[-1].touched == pytest.approx(sum(sum(n.touched) / len(n.touched) for n in notes) / 3)
