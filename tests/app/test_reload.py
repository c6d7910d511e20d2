"""A page reloaded in mid-run finds its run or measurement again, and nobody else does; it ends if nobody comes back."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from draftscope.base.errors import DraftscopeError
from draftscope.base.progress import Progress
from draftscope.drafters.settings import Settings
from draftscope_app.engine import answers, visitors
from draftscope_app.engine.answers import Answer
from draftscope_app.engine.jobs import Job
from draftscope_app.page.listeners.runs import RunListeners
from draftscope_app.page.shared import Shared
from draftscope_app.page.task import CardPage, TaskListeners
from tests.support.feeds import stream
from tests.support.made_up_jobs import CountingJob, LatestJob
from tests.support.runs import job
from tests.support.scripted import (
    MINE,
    THEIRS,
    ScriptedEngine,
    asked,
    assert_found_again,
    listening,
    nothing_to_find,
    resumed,
)


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
def page(engine: ScriptedEngine) -> RunListeners:
    return listening(engine)


def begin(page: RunListeners, engine: ScriptedEngine, session: str) -> tuple[Answer, AsyncIterator[str]]:
    visitor = page.shared.visitors.of(session)
    visitor.replace(handle := engine.run(job()))
    return handle, stream(engine, visitor, handle)  # type: ignore[arg-type]


def numbers(*deltas: str) -> list[int]:
    return [event["number"] for text in deltas for event in json.loads(text)["ev"]]


def test_a_reloaded_page_gets_what_has_happened_and_what_follows(page: RunListeners, engine: ScriptedEngine) -> None:
    async def reload() -> None:
        assert await nothing_to_find(page, "before", MINE)
        handle, first = begin(page, engine, "before")
        engine.event(handle, 0)
        engine.event(handle, 1)
        assert numbers(await anext(first)) == [0, 1]
        page.shared.visitors.left("before")
        engine.event(handle, 2)
        await first.aclose()  # type: ignore[attr-defined]
        engine.event(handle, 3)
        assert not handle.stopped

        second = resumed(page, "after", MINE)
        again = await anext(second)
        assert json.loads(again)["whole"] and numbers(again) == [0, 1, 2, 3]
        live = await anext(second)
        engine.event(handle, 4)
        assert numbers(live, await anext(second)) == [4]
        assert [json.loads(live)["seq"], json.loads(live)["run"]] == [4, handle.job.id]
        engine.end(handle)
        assert [json.loads(text)["state"] async for text in second] == ["done"]

    asyncio.run(reload())


def test_a_page_that_comes_before_the_old_one_was_seen_to_leave_reads_the_run_too(
    page: RunListeners, engine: ScriptedEngine
) -> None:
    async def reload() -> None:
        assert await nothing_to_find(page, "before", MINE)
        handle, first = begin(page, engine, "before")
        engine.event(handle, 0)
        await anext(first)
        second = resumed(page, "after", MINE)
        assert numbers(await anext(second)) == [0]
        await anext(second)
        engine.event(handle, 1)
        await first.aclose()  # type: ignore[attr-defined]
        page.shared.visitors.left("before")
        assert numbers(await anext(second)) == [1]
        assert not handle.stopped

    asyncio.run(reload())


def test_a_queued_run_is_found_too(page: RunListeners, engine: ScriptedEngine) -> None:
    async def reload() -> None:
        assert await nothing_to_find(page, "before", MINE)
        handle, first = begin(page, engine, "before")
        assert json.loads(await anext(first))["state"] == "queued"
        await first.aclose()  # type: ignore[attr-defined]
        second = resumed(page, "after", MINE)
        assert not isinstance(await anext(second), str)  # nothing is shown yet
        delta = json.loads(await anext(second))
        assert [delta["seq"], delta["run"], delta["state"]] == [0, handle.job.id, "queued"]

    asyncio.run(reload())


def test_a_run_that_ended_meanwhile_is_shown_to_its_end(page: RunListeners, engine: ScriptedEngine) -> None:
    async def reload() -> None:
        assert await nothing_to_find(page, "before", MINE)
        handle, first = begin(page, engine, "before")
        engine.event(handle, 0)
        await anext(first)
        engine.end(handle)
        async for _ in first:
            pass
        page.shared.visitors.left("before")
        (whole,) = [text async for text in resumed(page, "after", MINE)]
        assert [numbers(whole), json.loads(whole)["state"]] == [[0], "done"]

    asyncio.run(reload())


def test_a_fork_goes_on_where_the_run_that_it_joins_ended(page: RunListeners, engine: ScriptedEngine) -> None:
    async def fork() -> None:
        handle, first = begin(page, engine, "mine")
        engine.event(handle, 0)
        engine.end(handle)
        assert numbers(*[text async for text in first]) == [0]
        visitor = page.shared.visitors.of("mine")
        visitor.replace(forked := engine.run(job(), visitor.shown))
        second = stream(engine, visitor, forked)  # type: ignore[arg-type]
        assert json.loads(await anext(second))["state"] == "queued"
        engine.event(forked, 1)
        delta = await anext(second)
        assert [json.loads(delta)[name] for name in ("run", "seq")] == [handle.job.id, 1] and numbers(delta) == [1]
        engine.end(forked)
        async for _ in second:
            pass
        assert visitor.shown is handle.log and len(visitor.shown.lines) == 2

    asyncio.run(fork())


def test_nobody_finds_another_tabs_run(page: RunListeners, engine: ScriptedEngine) -> None:
    async def visit() -> None:
        assert await nothing_to_find(page, "mine", MINE)
        handle, first = begin(page, engine, "mine")
        engine.event(handle, 0)
        await anext(first)
        assert await nothing_to_find(page, "theirs", THEIRS)
        for guessed in ("", "1", MINE[:-1], MINE.upper() + "é", None, ["x"], {"token": MINE}):
            (answer,) = [text async for text in resumed(page, "theirs", guessed)]
            assert set(json.loads(answer)) == {"seq", "note"}
        assert page.shared.visitors.of("mine").latest is handle

    asyncio.run(visit())
    with pytest.raises(DraftscopeError, match="reload"):
        page.shared.visitors.claim("theirs", "a" * 31)


def test_a_run_that_nobody_comes_back_to_ends(
    page: RunListeners, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def leave(session: str, token: str, closes: bool) -> Answer:
        assert await nothing_to_find(page, session, token)
        handle, first = begin(page, engine, session)
        await anext(first)
        if closes:
            await first.aclose()  # type: ignore[attr-defined]
        else:  # as where only the page's heartbeat has ended
            page.shared.visitors.left(session)
        assert not handle.stopped
        return handle

    monkeypatch.setattr(visitors, "AWAY_S", 0.2)
    waiting: list[tuple[float, Callable[[], object]]] = []
    for module in (visitors, answers):
        monkeypatch.setattr(module, "later", lambda seconds, act: waiting.append((seconds, act)))
    left = [asyncio.run(leave("one", MINE, closes=True)), asyncio.run(leave("two", THEIRS, closes=False))]
    for seconds, act in waiting:
        assert seconds == 0.2
        act()
    assert all(handle.stopped for handle in left)
    page.shared.visitors.of("somebody")
    time.sleep(0.25)
    page.shared.visitors.of("somebody")
    assert "two" not in page.shared.visitors._visitors


def test_a_run_of_a_new_page_is_kept_and_the_old_one_ends(page: RunListeners, engine: ScriptedEngine) -> None:
    async def hurry() -> tuple[Answer, Answer]:
        assert await nothing_to_find(page, "before", MINE)
        old, _ = begin(page, engine, "before")
        new, _ = begin(page, engine, "after")
        second = resumed(page, "after", MINE)
        await anext(second)
        return old, new

    old, new = asyncio.run(hurry())
    assert old.stopped
    assert not new.stopped


# A measurement.

LANES = {"plain": Settings.of(drafter="plain", max_new_tokens=4)}
COUNTING, LATEST = CountingJob(id="r1", lanes=LANES), LatestJob(id="r2", lanes=LANES)


class CardOf(CardPage):
    """A card that asks for this."""

    def __init__(self, shared: Shared, work: Job) -> None:
        super().__init__(shared)
        self.work, self.kind = work, work.kind  # type: ignore[misc]

    def job(self, *_: Any) -> Job:
        return self.work


@pytest.mark.parametrize("work", [COUNTING, LATEST], ids=lambda work: work.kind)
def test_a_measurement_is_found_again(work: Job) -> None:
    assert_found_again(work, lambda shared: CardOf(shared, work))


def begun(page: RunListeners, session: str, work: Job) -> tuple[Answer, AsyncIterator[Any]]:
    return asked(page, session, work, CardOf(page.shared, work))


def test_a_measurement_that_nobody_comes_back_to_ends(
    page: RunListeners, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def leave(session: str, token: str) -> Answer:
        if token:
            assert await nothing_to_find(page, session, token)
        answer, first = begun(page, session, LATEST.model_copy(update={"id": session}))
        await anext(first)
        page.shared.visitors.left(session)
        await first.aclose()  # type: ignore[attr-defined]
        return answer

    monkeypatch.setattr(visitors, "AWAY_S", 0.2)
    assert asyncio.run(leave("a program", "")).stopped  # it has no tab to come back from
    left = asyncio.run(leave("one", MINE))
    deadline = time.monotonic() + 30
    while not left.stopped:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_another_measurement_is_refused_while_one_goes_on(page: RunListeners, engine: ScriptedEngine) -> None:
    request: Any = SimpleNamespace(session_hash="mine")
    event: Any = SimpleNamespace(payload=None)

    async def press_both() -> None:
        cards = [TaskListeners(page.shared, CardOf(page.shared, work), {}) for work in (COUNTING, LATEST)]
        first, second = (card.begin({}, event, request) for card in cards)
        assert json.loads(await anext(first))[COUNTING.kind]["state"] == "queued"
        answer = page.shared.visitors.of("mine").active
        (refused,) = [json.loads(each)["note"] async for each in second]
        assert answer is not None and "still going on" in refused
        assert page.shared.visitors.of("mine").active is answer
        page.shared.stop(SimpleNamespace(session_hash="theirs"))  # type: ignore[arg-type]
        assert not answer.stopped
        page.shared.stop(SimpleNamespace(session_hash="mine"))  # type: ignore[arg-type]
        assert answer.stopped

    asyncio.run(press_both())


def test_a_card_says_what_must_be_measured_first(page: RunListeners, engine: ScriptedEngine) -> None:
    """Compare and the load test said "starting" all the while."""

    async def read() -> list[str]:
        answer, updates = begun(page, "a", COUNTING)
        engine.say(answer, state="running")
        engine.say(answer, progress=Progress("what a round costs here", 0.4, 15.0))
        first = json.loads(await anext(updates))["counting"]
        engine.say(answer)
        second = json.loads(await anext(updates))["counting"]
        engine.end(answer)
        return [first["waits"], second["waits"]]

    assert asyncio.run(read()) == ["measuring what a round costs here, 40%, about 15 s left", ""]


def test_what_must_be_measured_first_is_in_the_deltas_until_the_run_has_begun(
    page: RunListeners, engine: ScriptedEngine
) -> None:
    """The page said "starting" for 20 s."""

    async def read() -> list[str]:
        answer, deltas = begin(page, engine, "a")
        engine.say(answer, state="running")
        engine.say(answer, progress=Progress("what a round costs here", 0.4, 15.0))
        first = json.loads(await anext(deltas))
        engine.event(answer, 1)
        second = json.loads(await anext(deltas))
        engine.end(answer)
        return [first["waits"], second["waits"]]

    assert asyncio.run(read()) == ["measuring what a round costs here, 40%, about 15 s left", ""]
