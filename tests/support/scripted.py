"""An engine whose jobs do what a test says, and the page before it: what a reload finds again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from types import SimpleNamespace
from typing import Any

import gradio as gr

from draftscope_app.engine.admission import Admission
from draftscope_app.engine.answers import Answer, Log
from draftscope_app.engine.config import Limits
from draftscope_app.engine.jobs import NOBODY, Asker, Command, EngineStatus, Job, Stop, Update
from draftscope_app.engine.notice import Notice
from draftscope_app.engine.visitors import Visitors, asker_of
from draftscope_app.page.controls import defaults
from draftscope_app.page.listeners.runs import RunListeners
from draftscope_app.page.shared import Shared, shown
from draftscope_app.page.task import Task, TaskListeners

MINE, THEIRS = "0" * 31 + "1", "f" * 32
Read = Callable[[Any], tuple[list[int], str]]  # an update of a card -> the numbers of the events in it, and its state


class ScriptedEngine:
    """Its jobs do what a test says."""

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

    def say(self, answer: Answer, **what: Any) -> None:
        answer.take(Update(answer.job.id, **what))
        if answer.over:
            self.runs.pop(answer.job.id, None)
        self.changed.give()

    def event(self, answer: Answer, number: int, **more: Any) -> None:
        self.say(answer, line=json.dumps({"number": number} | more))

    def end(self, answer: Answer) -> None:
        self.say(answer, state="done")


def listening(engine: ScriptedEngine) -> RunListeners:
    """The page before this engine."""
    admission: Any = Admission(engine, Limits())  # type: ignore[arg-type]
    widgets: Any = SimpleNamespace(plots=())
    return RunListeners(Shared(admission, Visitors(), defaults(), ()), widgets)


def resumed(page: RunListeners, session: str, token: Any) -> AsyncIterator[Any]:
    event: Any = SimpleNamespace(payload=token)
    request: Any = SimpleNamespace(session_hash=session)
    return page.resume(event, request)


async def nothing_to_find(page: RunListeners, session: str, token: str) -> bool:
    return all(not isinstance(text, str) for text in [text async for text in resumed(page, session, token)])


def asked(page: RunListeners, session: str, work: Job, task: Task) -> tuple[Answer, AsyncIterator[Any]]:
    """The work of a card is begun: its answer, and the updates of the card."""
    request: Any = SimpleNamespace(session_hash=session)
    visitor, admission = page.shared.visitors.of(session), page.shared.admission
    visitor.replace(answer := admission.admit({}, lambda _: work, visitor.active, asker_of(request, session)))
    return answer, shown(admission.engine, visitor, answer, TaskListeners(page.shared, task, {}))


def read_by(kind: str) -> Read:
    """Reads the updates of a card of the instrument."""

    def read(update: Any) -> tuple[list[int], str]:
        answer = json.loads(update)[kind]
        return [event["number"] for event in answer["ev"]], answer["state"]

    return read


def assert_found_again(
    work: Job, task: Callable[[Shared], Task], read: Read | None = None, over: Sequence[int] | None = None
) -> None:
    """A measurement of this card is found again after two reloads, by its visitor and by nobody else.

    `over`: the numbers that are shown once it was stopped, where those are not all that it keeps.
    """
    engine = ScriptedEngine()
    page = listening(engine)
    card, read = task(page.shared), read or read_by(work.kind)

    def kept(last: int) -> list[int]:
        return [last] if work.keeps_last or over is not None else list(range(last + 1))

    stopped = (kept(3) if over is None else list(over), "done")

    def found_again(session: str) -> AsyncIterator[Any]:
        request: Any = SimpleNamespace(session_hash=session)
        return TaskListeners(page.shared, card, {}).resume(request)

    def event(answer: Answer, number: int) -> None:
        engine.event(answer, number, so_far=f"look {number}")

    async def reload() -> None:
        assert await nothing_to_find(page, "before", MINE)
        assert [update async for update in found_again("before")] == [gr.skip()]
        answer, first = asked(page, "before", work, card)
        for number in (0, 1):
            event(answer, number)
        await anext(first)
        page.shared.visitors.left("before")
        await first.aclose()  # type: ignore[attr-defined]
        event(answer, 2)
        assert not answer.stopped

        assert await nothing_to_find(page, "after", MINE)
        second = found_again("after")
        update = await anext(second)
        assert read(update) == (kept(2), "queued")
        assert not isinstance(update, str) or answer.created in update
        event(answer, 3)
        assert read(await anext(second)) == (kept(3), "queued")
        engine.end(answer)
        assert [read(update) async for update in second] == [stopped]

        page.shared.visitors.left("after")
        assert await nothing_to_find(page, "later", MINE)
        assert [read(update) async for update in found_again("later")] == [stopped]
        assert await nothing_to_find(page, "theirs", THEIRS)
        assert [update async for update in found_again("theirs")] == [gr.skip()]

    asyncio.run(reload())
