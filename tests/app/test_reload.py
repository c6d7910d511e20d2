"""A page reloaded in mid-run finds its run, comparison or check again, and nobody else does; what nobody comes back to
ends."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from draftscope.base.errors import DraftscopeError
from draftscope_app.engine import sessions
from draftscope_app.engine.admission import Admission
from draftscope_app.engine.config import Limits
from draftscope_app.engine.handle import RunHandle
from draftscope_app.engine.messages import Command, EngineStatus, Entered, Happened, Job, Stop
from draftscope_app.engine.notice import Notice
from draftscope_app.engine.sessions import Visitors, new_run_id
from draftscope_app.page.controls import defaults
from draftscope_app.page.listeners.runs import RunListeners
from draftscope_app.page.listeners.tasks import RECEIVERS, TaskListeners
from draftscope_app.page.runs import tasks
from draftscope_app.page.runs.feed import stream
from draftscope_app.page.shared import Shared
from tests.support.runs import job

MINE, THEIRS = "0" * 31 + "1", "f" * 32


class Tape:
    """An engine whose runs do what a test says."""

    def __init__(self) -> None:
        self.status = EngineStatus("ready", "stand-in")
        self.changed = Notice()
        self.runs: dict[str, RunHandle] = {}

    def __len__(self) -> int:
        return len(self.runs)

    def run(self, job: Job) -> RunHandle:
        return self.runs.setdefault(job.run, RunHandle(self, job))

    def send(self, command: Command) -> None:
        if isinstance(command, Stop):
            self.say(self.runs[command.run], Entered(command.run, "done"))

    def place(self, _: RunHandle) -> int:
        return 0

    def say(self, handle: RunHandle, *messages: Any) -> None:
        for message in messages:
            handle.deliver(message)
        if handle.over:
            self.runs.pop(handle.job.run, None)
        self.changed.give()

    def event(self, handle: RunHandle, number: int) -> None:
        self.say(handle, Happened(handle.job.run, json.dumps({"number": number})))


@pytest.fixture
def engine() -> Tape:
    return Tape()


@pytest.fixture
def page(engine: Tape) -> RunListeners:
    admission: Any = Admission(engine, Limits())  # type: ignore[arg-type]
    widgets: Any = SimpleNamespace(plots=())
    return RunListeners(Shared(admission, Visitors(), defaults(), ()), widgets)


def resumed(page: RunListeners, session: str, token: Any) -> AsyncIterator[Any]:
    event: Any = SimpleNamespace(asked=token)
    request: Any = SimpleNamespace(session_hash=session)
    return page.resume(event, request)


def begin(page: RunListeners, engine: Tape, session: str) -> tuple[RunHandle, AsyncIterator[str]]:
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
        assert json.loads(again)["whole"]
        assert json.loads(again)["seq"] == 1
        live = await anext(second)
        engine.event(handle, 4)
        assert numbers(again, live, await anext(second)) == [0, 1, 2, 3, 4]
        assert [json.loads(live)["seq"], json.loads(live)["run"]] == [1, handle.job.run]
        engine.say(handle, Entered(handle.job.run, "done"))
        assert [json.loads(text)["state"] async for text in second] == ["done"]

    asyncio.run(reload())


def test_a_page_that_comes_before_the_old_one_was_seen_to_leave_takes_the_run_over(
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
        assert [text async for text in first] == []
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
        assert [delta["seq"], delta["run"], delta["state"]] == [0, handle.job.run, "queued"]

    asyncio.run(reload())


def test_a_run_that_ended_meanwhile_is_shown_to_its_end(page: RunListeners, engine: Tape) -> None:
    async def reload() -> None:
        assert await nothing_to_find(page, "before", MINE)
        handle, first = begin(page, engine, "before")
        engine.event(handle, 0)
        await anext(first)
        engine.say(handle, Entered(handle.job.run, "done"))
        async for _ in first:
            pass
        page.shared.visitors.left("before")
        (whole,) = [text async for text in resumed(page, "after", MINE)]
        assert [numbers(whole), json.loads(whole)["state"]] == [[0], "done"]

    asyncio.run(reload())


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
        assert page.shared.visitors.of("mine").handle is handle

    asyncio.run(visit())
    with pytest.raises(DraftscopeError, match="reload"):
        page.shared.visitors.claim("theirs", "a" * 31)


def test_a_run_that_nobody_comes_back_to_ends(
    page: RunListeners, engine: Tape, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def leave(session: str, token: str, closes: bool) -> RunHandle:
        assert await nothing_to_find(page, session, token)
        handle, first = begin(page, engine, session)
        await anext(first)
        if closes:
            await first.aclose()  # type: ignore[attr-defined]
        else:  # as where only the page's heartbeat has ended
            page.shared.visitors.left(session)
        assert not handle.stopped
        return handle

    monkeypatch.setattr(sessions, "AWAY_S", 0.2)
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
    async def hurry() -> tuple[RunHandle, RunHandle]:
        assert await nothing_to_find(page, "before", MINE)
        old, _ = begin(page, engine, "before")
        new, _ = begin(page, engine, "after")
        second = resumed(page, "after", MINE)
        await anext(second)
        return old, new

    old, new = asyncio.run(hurry())
    assert old.stopped
    assert not new.stopped


# A comparison or a check.


WORK: dict[str, dict[str, Any]] = {
    "compare": {"compares": 3},
    "check": {"checks": 500},
    "audit": {"audits": 40, "servers": ("http://127.0.0.1:9",)},
    "load": {"loads": (1, 2), "servers": ("http://127.0.0.1:9",)},
}


def task_of(kind: str) -> Job:
    lanes = (("plain", {"drafter": "plain", "max_new_tokens": 4}),)
    return Job(new_run_id(), "a", lanes, **WORK[kind])


def asked(page: RunListeners, engine: Tape, session: str, kind: Any) -> tuple[RunHandle, AsyncIterator[str]]:
    visitor = page.shared.visitors.of(session)
    visitor.replace(handle := engine.run(task_of(kind)))
    return handle, tasks.answers(kind, engine, visitor, handle)  # type: ignore[arg-type]


def found_again(page: RunListeners, session: str) -> AsyncIterator[list[Any]]:
    request: Any = SimpleNamespace(session_hash=session)
    return TaskListeners(page.shared, page.widgets).resume(request)


def answer_of(kind: str, update: list[Any]) -> tuple[list[int], str]:
    """The numbers of the events, and the state, in an update of the page's receivers."""
    (place,) = [place for place, text in enumerate(update) if isinstance(text, str)]
    assert RECEIVERS[place] == kind
    answer = json.loads(update[place])[kind]
    return [event["number"] for event in answer["ev"]], answer["state"]


@pytest.mark.parametrize("kind", RECEIVERS)
def test_a_comparison_a_check_an_audit_or_a_load_is_found_again(page: RunListeners, engine: Tape, kind: str) -> None:
    so_far = (lambda last: list(range(last + 1))) if kind == "compare" else lambda last: [last]

    async def reload() -> None:
        assert await nothing_to_find(page, "before", MINE)
        assert [update async for update in found_again(page, "before")] == [[gr.skip()] * len(RECEIVERS)]
        handle, first = asked(page, engine, "before", kind)
        for number in (0, 1):
            engine.event(handle, number)
        created = json.loads(await anext(first))[kind]["about"]["created"]
        page.shared.visitors.left("before")
        await first.aclose()  # type: ignore[attr-defined]
        engine.event(handle, 2)
        assert not handle.stopped

        assert await nothing_to_find(page, "after", MINE)
        second = found_again(page, "after")
        update = await anext(second)
        assert answer_of(kind, update)[0] == so_far(2)
        assert created in "".join(map(str, update))
        engine.event(handle, 3)
        assert answer_of(kind, await anext(second))[0] == so_far(3)
        engine.say(handle, Entered(handle.job.run, "done"))
        assert [answer_of(kind, update) async for update in second] == [(so_far(3), "done")]

        page.shared.visitors.left("after")
        assert await nothing_to_find(page, "later", MINE)
        assert [answer_of(kind, update) async for update in found_again(page, "later")] == [(so_far(3), "done")]
        assert await nothing_to_find(page, "theirs", THEIRS)
        assert [update async for update in found_again(page, "theirs")] == [[gr.skip()] * len(RECEIVERS)]

    asyncio.run(reload())


def test_a_check_that_nobody_comes_back_to_ends(
    page: RunListeners, engine: Tape, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def leave(session: str, token: str) -> RunHandle:
        if token:
            assert await nothing_to_find(page, session, token)
        handle, first = asked(page, engine, session, "check")
        await anext(first)
        page.shared.visitors.left(session)
        await first.aclose()  # type: ignore[attr-defined]
        return handle

    monkeypatch.setattr(sessions, "AWAY_S", 0.2)
    assert asyncio.run(leave("a program", "")).stopped  # it has no tab to come back from
    left = asyncio.run(leave("one", MINE))
    deadline = time.monotonic() + 30
    while not left.stopped:
        assert time.monotonic() < deadline
        time.sleep(0.02)
