"""A field of servers: opened once, then raced, loaded or audited, each as events."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

import pytest

from draftscope.base.errors import DraftscopeError
from draftscope.base.steps import Cancelled, last, said
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.servers.adapter import ServerError
from draftscope.servers.audit.audit_events import AuditProgress
from draftscope.servers.audit.plan import Plan
from draftscope.servers.field import Field, request_of
from draftscope.servers.load_test import LoadPlan, LoadPoint
from draftscope.servers.server_race import Race, RaceResult
from draftscope.trace.events import AnyEvent
from draftscope.trace.validate import validate
from tests.doors.servers.stubs import Habits, stub

GREEDY = Settings.of(temperature=0.0, max_new_tokens=6, raw=True)
GONE = "http://127.0.0.1:9"


def habits_of(engine: DecodingEngine, **more: object) -> Habits:
    """A server with the tokenizer of the engine here."""
    return Habits(encode=lambda text: engine.tokenizer.encode(text, add_special_tokens=False), **more)  # type: ignore[arg-type]


@pytest.fixture
def opened(pair: DecodingEngine) -> Iterator[Field]:
    """Two servers, one that does not answer, and a drafter here."""
    with (
        stub(habits_of(pair)) as plain,
        stub(habits_of(pair, burst=3, pause=0.1)) as fast,
        Field.open(
            {"plain": plain, "fast": fast, "gone": GONE}, pair, {"here": Settings.of(drafter="ngram")}, draft=pair.draft
        ) as field,
    ):
        yield field


def test_it_races_all_lanes_as_a_trace(opened: Field) -> None:
    standing, known = RaceResult(), {}
    plan = Race(opened.prompts(["abcabc"], True, 6), request_of(GREEDY), 1, opened.jitter)
    events: list[AnyEvent] = list(said(opened.race(plan, "one", standing, known)))
    validate(events)
    assert [lane.name for lane in opened.lanes] == ["plain", "fast", "here"] and list(opened.missing) == ["gone"]
    assert {event.lane for event in events} == {"plain", "fast", "gone", "here"}
    assert {answer.lane for answer in standing.answers} == {"plain", "fast", "here"} == {key[0] for key in known}


def test_stopped_its_lanes_still_end(opened: Field) -> None:
    steps = opened.race(Race([opened.prompt("abc", GREEDY)], request_of(GREEDY), 9))
    seen = [*takewhile(lambda step: step is not None, steps), steps.throw(Cancelled()), *steps]  # type: ignore[attr-defined]
    assert {event.lane for event in said(seen) if event.kind == "run_end"} == {"plain", "fast", "gone", "here"}


def test_a_load_is_predicted_from_the_costs_here_and_takes_servers_only(opened: Field, pair: DecodingEngine) -> None:
    plan = LoadPlan([opened.prompt("abc", GREEDY)], request_of(GREEDY), (1, 2), 0.2)
    with pytest.raises(DraftscopeError, match="--engine takes one request at a time"):
        next(opened.load(plan))
    points: list[LoadPoint] = []
    servers = Field(opened.servers, opened.missing, pair)
    first, *_, ended = said(servers.load(plan, points))
    assert not first.points and len(ended.points) == len(points) == 4 and ended.over
    assert "t, d as draft model" in ended.predicted_with and {each.lane for each in ended.predicted} == {"fast"}


def test_an_engine_of_another_tokenizer_is_left_out(pair: DecodingEngine) -> None:
    with stub(Habits()) as other, Field.open({"other": other}, pair) as field:
        assert "another tokenizer than the target here" in field.strangers["other"]
        alone = field.with_engine_of_servers()
        assert alone.engine is None and not alone.strangers
        assert alone.prompt("a b", GREEDY).ids
        with pytest.raises(DraftscopeError, match="'other' has another tokenizer than the target that is loaded here"):
            list(alone.audit(Plan()))
    with stub(habits_of(pair)) as same, Field.open({"same": same}, pair) as field:
        assert field.with_engine_of_servers() is field


def test_it_audits_one_server_against_another_and_refuses_missing_ones(opened: Field) -> None:
    two = Field(opened.servers, {}, None)
    seen: list[AuditProgress | None] = []
    report = last(two.audit(Plan(samples=8, tokens=2, seconds=20), ["abc", "bca"]), seen.append)
    first, *_, ended = said(seen)
    assert (first.server, first.against, first.verdict) == ("plain", "fast, a server", "")
    assert ended.verdict == report.verdict and ended.created == report.created and report.greedy["texts"] == 2
    with pytest.raises(DraftscopeError, match=GONE):
        list(opened.audit(Plan()))
    with pytest.raises(ServerError), Field.open({"gone": GONE}):
        pass
