"""Comparisons, checks, forks in the engine process: told as they go, stopped within a round, behind others' races."""

from __future__ import annotations

from typing import Any

from draftscope.decode.fork import ForkPoint
from draftscope.drafters.settings import Settings
from draftscope_app.doors.decide.check.job import CheckJob
from draftscope_app.doors.decide.compare.job import CompareJob
from draftscope_app.engine.jobs import new_id
from draftscope_app.engine.process import EngineProcess
from draftscope_app.engine.run_job import RunJob
from tests.support.runs import Seen, job

PLAIN: dict[str, Any] = {"max_new_tokens": 40, "temperature": 1.0}
LANES = {name: Settings.of(drafter=name, **PLAIN) for name in ("plain", "draft", "ngram")}


def test_a_comparison_tells_every_run_and_lets_races_go_first(engine: EngineProcess) -> None:
    comparing = Seen(engine.run(CompareJob(id=new_id(), prompt="abc", lanes=LANES, repeats=40)))
    comparing.until(lambda s: len(s.events) >= 4)
    racing = Seen(engine.run(job(tokens=40))).done()
    assert racing.ends
    assert comparing.states == ["running"]
    comparing.answer.stop()
    comparing.done()
    assert [event["lane"] for event in comparing.events[:4]] == ["plain", "draft", "ngram", "plain"]
    assert not comparing.sentences


def test_a_check_is_stopped_inside_its_distribution_test(engine: EngineProcess) -> None:
    lanes = {"check": LANES["ngram"]}
    checking = Seen(engine.run(CheckJob(id=new_id(), prompt="abc", lanes=lanes, samples=10**7)))
    checking.until(lambda s: bool(s.events) and len(s.events[-1]["findings"]) == 5)
    checking.answer.stop()
    checking.done()
    assert not checking.sentences
    (last,) = checking.events  # it stands for all before it
    assert not last["verdict"]


def test_a_fork_is_told_under_the_name_of_the_run_that_it_leaves(engine: EngineProcess) -> None:
    def fork(*given: int, forced: bool) -> RunJob:
        point = ForkPoint("draft", 1, given, forced, run="r0")
        return RunJob(id=new_id(), prompt="abc", lanes={"fork 1": LANES["draft"]}, fork_point=point)

    seen = Seen(engine.run(fork(80, 81, forced=True))).done()
    assert {event["run"] for event in seen.events} == {"r0"}
    assert seen.events[0]["fork"]["token_ids"] == [80, 81]
    refused = Seen(engine.run(fork(99_999, forced=False))).done()
    assert "knows 0 to 257" in refused.sentences[0]
