"""Comparisons, checks, forks in the engine process: told as they go, stopped within a round, behind others' races."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from draftscope.decode.fork import ForkPoint
from draftscope_app.engine.messages import Job
from draftscope_app.engine.process import EngineProcess
from draftscope_app.engine.sessions import new_run_id
from tests.support.runs import Seen, job

PLAIN: dict[str, Any] = {"drafter": "plain", "max_new_tokens": 40, "temperature": 1.0}
LANES = (("plain", PLAIN), ("draft", PLAIN | {"drafter": "draft"}), ("ngram", PLAIN | {"drafter": "ngram"}))


def asked(**what: Any) -> Job:
    return Job(new_run_id(), "abc", what.pop("lanes", LANES), **what)


def test_a_comparison_tells_every_run_and_lets_races_go_first(engine: EngineProcess) -> None:
    comparing = Seen(engine.run(asked(compares=40)))
    comparing.until(lambda s: len(s.events) >= 4)
    racing = Seen(engine.run(job(tokens=40))).done()
    assert racing.ends
    assert "done" not in comparing.look().states
    assert comparing.states == ["running", "solo"]
    comparing.handle.stop()
    comparing.done()
    assert [event["lane"] for event in comparing.events[:4]] == ["plain", "draft", "ngram", "plain"]
    assert not comparing.sentences


def test_a_check_is_stopped_inside_its_distribution_test(engine: EngineProcess) -> None:
    checking = Seen(engine.run(asked(lanes=LANES[2:], checks=10**7)))
    checking.until(lambda s: bool(s.events) and len(s.events[-1]["findings"]) == 5)
    checking.handle.stop()
    checking.done()
    assert not checking.sentences
    assert not any(event["verdict"] for event in checking.events)


def test_a_fork_is_told_under_the_name_of_the_run_that_it_joins(engine: EngineProcess) -> None:
    fork_point = ForkPoint("draft", 1, (80, 81), forced=True)
    fork = asked(lanes=(("fork 1", LANES[1][1]),), fork_point=fork_point, joins="r0")
    seen = Seen(engine.run(fork)).done()
    assert {event["run"] for event in seen.events} == {"r0"}
    assert seen.events[0]["fork"]["token_ids"] == [80, 81]
    refused = Seen(engine.run(replace(fork, run=new_run_id(), fork_point=ForkPoint("draft", 1, (99_999,))))).done()
    assert "knows 0 to 257" in refused.sentences[0]
