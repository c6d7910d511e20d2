"""Measurements and forks in the engine process: told as they go, stopped within a step, behind others' races."""

from __future__ import annotations

from draftscope.decode.fork import ForkPoint
from draftscope.drafters.settings import Settings
from draftscope_app.engine.jobs import new_id
from draftscope_app.engine.process import EngineProcess
from draftscope_app.engine.run_job import RunJob
from tests.support.made_up_jobs import CountingJob
from tests.support.runs import Seen, job

DRAFT = Settings.of(drafter="draft", max_new_tokens=40, temperature=1.0)


def test_a_measurement_tells_every_event_and_lets_races_go_first(engine: EngineProcess) -> None:
    counting = Seen(engine.run(CountingJob(id=new_id(), most=10**6)))
    counting.until(lambda s: len(s.events) >= 4)
    racing = Seen(engine.run(job(tokens=40))).done()
    assert racing.ends
    assert counting.states == ["running"]
    counting.answer.stop()
    counting.done()
    assert [event["number"] for event in counting.events[:4]] == [0, 1, 2, 3]
    assert not counting.sentences


def test_a_fork_is_told_under_the_name_of_the_run_that_it_leaves(engine: EngineProcess) -> None:
    def fork(*given: int, forced: bool) -> RunJob:
        point = ForkPoint("draft", 1, given, forced, run="r0")
        return RunJob(id=new_id(), prompt="abc", lanes={"fork 1": DRAFT}, fork_point=point)

    seen = Seen(engine.run(fork(80, 81, forced=True))).done()
    assert {event["run"] for event in seen.events} == {"r0"}
    assert seen.events[0]["fork"]["token_ids"] == [80, 81]
    refused = Seen(engine.run(fork(99_999, forced=False))).done()
    assert "knows 0 to 257" in refused.sentences[0]
