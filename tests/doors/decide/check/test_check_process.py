"""Checks in the engine process: stopped within a round."""

from __future__ import annotations

from draftscope.drafters.settings import Settings
from draftscope_app.doors.decide.check.job import CheckJob
from draftscope_app.engine.jobs import new_id
from draftscope_app.engine.process import EngineProcess
from tests.support.runs import Seen


def test_a_check_is_stopped_inside_its_distribution_test(engine_process: EngineProcess) -> None:
    lanes = {"check": Settings.of(drafter="ngram", max_new_tokens=40, temperature=1.0)}
    checking = Seen(engine_process.run(CheckJob(id=new_id(), prompt="abc", lanes=lanes, samples=10**7)))
    checking.until(lambda s: bool(s.events) and len(s.events[-1]["findings"]) == 5)
    checking.answer.stop()
    checking.done()
    assert not checking.sentences
    (last,) = checking.events  # it stands for all before it
    assert not last["verdict"]
