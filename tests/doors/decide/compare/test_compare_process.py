"""Comparisons in the engine process: told as they go, and behind others' races."""

from __future__ import annotations

from draftscope.drafters.settings import Settings
from draftscope_app.doors.decide.compare.job import CompareJob
from draftscope_app.engine.jobs import new_id
from draftscope_app.engine.process import EngineProcess
from tests.support.runs import Seen, job

LANES = {name: Settings.of(drafter=name, max_new_tokens=40, temperature=1.0) for name in ("plain", "draft", "ngram")}


def test_a_comparison_tells_every_run_and_lets_races_go_first(engine_process: EngineProcess) -> None:
    comparing = Seen(engine_process.run(CompareJob(id=new_id(), prompt="abc", lanes=LANES, repeats=40)))
    comparing.until(lambda s: len(s.events) >= 4)
    racing = Seen(engine_process.run(job(tokens=40))).done()
    assert racing.ends
    assert comparing.states == ["running"]
    comparing.answer.stop()
    comparing.done()
    assert [event["lane"] for event in comparing.events[:4]] == ["plain", "draft", "ngram", "plain"]
    assert not comparing.sentences
