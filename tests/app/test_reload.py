"""A page reloaded in mid-run finds its run or measurement again, and nobody else does; it ends if nobody comes back."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from draftscope.advise.question import Asked
from draftscope.base.errors import DraftscopeError
from draftscope.base.progress import Progress
from draftscope.drafters.settings import Settings
from draftscope_app.doors.decide.advise.job import AdviseJob
from draftscope_app.doors.decide.advise.page import Page as AdvicePage
from draftscope_app.doors.decide.check.job import CheckJob
from draftscope_app.doors.decide.compare.job import CompareJob
from draftscope_app.doors.servers.audit.job import AuditJob
from draftscope_app.doors.servers.load.job import LoadJob
from draftscope_app.engine import visitors
from draftscope_app.engine.admission import Admission
from draftscope_app.engine.answers import Answer, Log
from draftscope_app.engine.config import Limits
from draftscope_app.engine.jobs import NOBODY, Asker, Command, EngineStatus, Job, Stop, Update
from draftscope_app.engine.notice import Notice
from draftscope_app.engine.visitors import Visitors, asker_of
from draftscope_app.page.controls import defaults
from draftscope_app.page.listeners.runs import RunListeners
from draftscope_app.page.shared import Shared, shown
from draftscope_app.page.task import CardPage, Task, TaskListeners
from tests.support.feeds import stream
from tests.support.runs import job

MINE, THEIRS = "0" * 31 + "1", "f" * 32


class Tape:
    """An engine whose jobs do what a test says."""

    def __init__(self) -> None:
        self.status = EngineStatus("ready", "stand-in")
        self.changed = Notice()
        self.runs: dict[str, Answer] = {}

    def __len__(self) -> int:
        return len(self.runs)

    def run(self, job: Job, log: Log | None = None, asker: Asker = NOBODY) -> Answer:
        return self.runs.setdefault(job.id, Answer(self, job, log, asker))  # type: ignore[arg-type]

    def send(self, command: Command) -> None:
        if isinstance(command, Stop):
            self.end(self.runs[command.id])

    def place(self, _: Answer) -> int:
        return 0

    def _say(self, answer: Answer, **what: Any) -> None:
        answer.take(Update(answer.job.id, **what))
        if answer.over:
            self.runs.pop(answer.job.id, None)
        self.changed.give()

    def event(self, answer: Answer, number: int, **more: Any) -> None:
        self._say(answer, line=json.dumps({"number": number} | more))

    def end(self, answer: Answer) -> None:
        self._say(answer, state="done")


@pytest.fixture
def engine() -> Tape:
    return Tape()


@pytest.fixture
def page(engine: Tape) -> RunListeners:
    admission: Any = Admission(engine, Limits())  # type: ignore[arg-type]
    widgets: Any = SimpleNamespace(plots=())
    return RunListeners(Shared(admission, Visitors(), defaults(), ()), widgets)


def resumed(page: RunListeners, session: str, token: Any) -> AsyncIterator[Any]:
    event: Any = SimpleNamespace(payload=token)
    request: Any = SimpleNamespace(session_hash=session)
    return page.resume(event, request)


def begin(page: RunListeners, engine: Tape, session: str) -> tuple[Answer, AsyncIterator[str]]:
    visitor = page.shared.visitors.of(session)
    visitor.replace(handle := engine.run(job()))
    return handle, stream(engine, visitor, handle)  # type: ignore[arg-type]


async def nothing_to_find(page: RunListeners, session: str, token: str) -> bool:
    return all(not isinstance(text, str) for text in [text async for text in resumed(page, session, token)])


def numbers(*deltas: str) -> list[int]:
    return [event["number"] for text in deltas for event in json.loads(text)["ev"]]


def test_a_reloaded_page_gets_what_has_happened_and_what_follows(page: RunListeners, engine: Tape) -> None:
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
    page: RunListeners, engine: Tape
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


def test_a_queued_run_is_found_too(page: RunListeners, engine: Tape) -> None:
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


def test_a_run_that_ended_meanwhile_is_shown_to_its_end(page: RunListeners, engine: Tape) -> None:
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


def test_a_fork_goes_on_where_the_run_that_it_joins_ended(page: RunListeners, engine: Tape) -> None:
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


def test_nobody_finds_another_tabs_run(page: RunListeners, engine: Tape) -> None:
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
    page: RunListeners, engine: Tape, monkeypatch: pytest.MonkeyPatch
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
    left = [asyncio.run(leave("one", MINE, closes=True)), asyncio.run(leave("two", THEIRS, closes=False))]
    deadline = time.monotonic() + 30
    while not all(handle.stopped for handle in left):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    page.shared.visitors.of("somebody")
    time.sleep(0.25)
    page.shared.visitors.of("somebody")
    assert "two" not in page.shared.visitors._visitors


def test_a_run_of_a_new_page_is_kept_and_the_old_one_ends(page: RunListeners, engine: Tape) -> None:
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
URLS = {"plain": "http://127.0.0.1:9"}
WORK: tuple[Job, ...] = (
    CompareJob(id="r1", lanes=LANES, repeats=3), CheckJob(id="r2", lanes=LANES, samples=500),
    AuditJob(id="r3", lanes=LANES, urls=URLS, samples=40), LoadJob(id="r4", lanes=LANES, urls=URLS, points=(1, 2)),
    AdviseJob(id="r5", lanes=LANES, wish=Asked()),
)  # fmt: skip


class CardOf(CardPage):
    """A card that asks for this."""

    def __init__(self, shared: Shared, work: Job) -> None:
        super().__init__(shared)
        self.work, self.kind = work, work.kind  # type: ignore[misc]

    def job(self, *_: Any) -> Job:
        return self.work


def listeners(page: RunListeners, work: Job) -> TaskListeners:
    task: Task = AdvicePage(page.shared) if isinstance(work, AdviseJob) else CardOf(page.shared, work)
    return TaskListeners(page.shared, task, {})


def asked(page: RunListeners, session: str, work: Job) -> tuple[Answer, AsyncIterator[Any]]:
    request: Any = SimpleNamespace(session_hash=session)
    visitor, admission = page.shared.visitors.of(session), page.shared.admission
    visitor.replace(answer := admission.admit({}, lambda _: work, visitor.active, asker_of(request, session)))
    return answer, shown(admission.engine, visitor, answer, listeners(page, work))


def found_again(page: RunListeners, session: str, work: Job) -> AsyncIterator[Any]:
    request: Any = SimpleNamespace(session_hash=session)
    return listeners(page, work).resume(request)


def answer_of(work: Job, update: Any) -> tuple[list[int], str]:
    """The numbers of the events, and the state, in an update of the page's card."""
    if isinstance(work, AdviseJob):
        number = re.findall(r"look (\d+);", update[4])
        return list(map(int, number)), "queued" if update[2]["interactive"] else "done"
    answer = json.loads(update)[work.kind]
    return [event["number"] for event in answer["ev"]], answer["state"]


@pytest.mark.parametrize("work", WORK, ids=lambda work: work.kind)
def test_a_measurement_is_found_again(page: RunListeners, engine: Tape, work: Job) -> None:
    """An advice was lost."""
    so_far = (lambda last: list(range(last + 1))) if isinstance(work, CompareJob) else lambda last: [last]
    over = (
        ([], "done") if isinstance(work, AdviseJob) else (so_far(3), "done")
    )  # it was stopped before there was a report

    def event(answer: Answer, number: int) -> None:
        engine.event(answer, number, so_far=f"look {number}")

    async def reload() -> None:
        assert await nothing_to_find(page, "before", MINE)
        assert [update async for update in found_again(page, "before", work)] == [gr.skip()]
        answer, first = asked(page, "before", work)
        for number in (0, 1):
            event(answer, number)
        await anext(first)
        page.shared.visitors.left("before")
        await first.aclose()  # type: ignore[attr-defined]
        event(answer, 2)
        assert not answer.stopped

        assert await nothing_to_find(page, "after", MINE)
        second = found_again(page, "after", work)
        update = await anext(second)
        assert answer_of(work, update) == (so_far(2), "queued")
        assert isinstance(work, AdviseJob) or answer.created in update
        event(answer, 3)
        assert answer_of(work, await anext(second)) == (so_far(3), "queued")
        engine.end(answer)
        assert [answer_of(work, update) async for update in second] == [over]

        page.shared.visitors.left("after")
        assert await nothing_to_find(page, "later", MINE)
        assert [answer_of(work, update) async for update in found_again(page, "later", work)] == [over]
        assert await nothing_to_find(page, "theirs", THEIRS)
        assert [update async for update in found_again(page, "theirs", work)] == [gr.skip()]

    asyncio.run(reload())


def test_a_check_that_nobody_comes_back_to_ends(
    page: RunListeners, engine: Tape, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def leave(session: str, token: str) -> Answer:
        if token:
            assert await nothing_to_find(page, session, token)
        answer, first = asked(page, session, WORK[1].model_copy(update={"id": session}))
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


def test_another_measurement_is_refused_while_one_goes_on(page: RunListeners, engine: Tape) -> None:
    request: Any = SimpleNamespace(session_hash="mine")
    event: Any = SimpleNamespace(payload=None)

    async def press_both() -> None:
        first, second = (listeners(page, work).begin({}, event, request) for work in WORK[:2])
        assert json.loads(await anext(first))["compare"]["state"] == "queued"
        answer = page.shared.visitors.of("mine").active
        assert answer is not None and "still going on" in [json.loads(each)["note"] async for each in second][0]
        assert page.shared.visitors.of("mine").active is answer
        page.shared.stop(SimpleNamespace(session_hash="theirs"))  # type: ignore[arg-type]
        assert not answer.stopped
        page.shared.stop(SimpleNamespace(session_hash="mine"))  # type: ignore[arg-type]
        assert answer.stopped

    asyncio.run(press_both())


def test_a_card_says_what_must_be_measured_first(page: RunListeners, engine: Tape) -> None:
    """Compare and the load test said "starting" all the while."""

    async def read() -> list[str]:
        answer, updates = asked(page, "a", WORK[0])
        engine._say(answer, state="running")
        engine._say(answer, progress=Progress("what a round costs here", 0.4, 15.0))
        first = json.loads(await anext(updates))["compare"]
        engine._say(answer)
        second = json.loads(await anext(updates))["compare"]
        engine.end(answer)
        return [first["waits"], second["waits"]]

    assert asyncio.run(read()) == ["measuring what a round costs here, 40%, about 15 s left", ""]


def test_what_must_be_measured_first_is_in_the_deltas_until_the_run_has_begun(page: RunListeners, engine: Tape) -> None:
    """The page said "starting" for 20 s."""

    async def read() -> list[str]:
        answer, deltas = begin(page, engine, "a")
        engine._say(answer, state="running")
        engine._say(answer, progress=Progress("what a round costs here", 0.4, 15.0))
        first = json.loads(await anext(deltas))
        engine.event(answer, 1)
        second = json.loads(await anext(deltas))
        engine.end(answer)
        return [first["waits"], second["waits"]]

    assert asyncio.run(read()) == ["measuring what a round costs here, 40%, about 15 s left", ""]
