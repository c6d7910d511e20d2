"""Whether the engine process answers: on a clock of the test, and by processes that are stopped or caught in a call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import httpx
import pytest
from starlette.applications import Starlette

from draftscope.base.load_settings import LoadSettings
from draftscope_app.engine import process as engine_process
from draftscope_app.engine.admission import Admission
from draftscope_app.engine.beats import LOOK_S, ROW_S, Beats, Watch
from draftscope_app.engine.config import Limits
from draftscope_app.engine.jobs import Update
from draftscope_app.engine.process import SILENT, EngineProcess
from draftscope_app.engine.visitors import Visitor
from draftscope_app.serve import health
from tests.support.feeds import stream
from tests.support.runs import PATIENCE_S, Seen, held, job, wait_loaded
from tests.support.stand_ins import is_caught_in_a_call


@dataclass
class Pulse:
    forwards: int = 0
    rows: int = 0


class Engine:
    """Both sides, on one clock."""

    value = 0

    def __init__(self) -> None:
        self.now = 100.0
        self.beats = Beats(self, lambda: self.now)
        self.model = Pulse()
        self.beats.watch([self.model])
        self.server = Watch(self, lambda: self.now)
        self.beats.move()
        self.beats.beat()

    def wait(self, seconds: float) -> float:
        """Both threads do what they do; for how long nothing was heard then."""
        until = self.now + seconds
        while self.now < until:
            self.now += LOOK_S
            self.beats.beat()
            self.server.look()
        return self.server.quiet_s


def test_a_main_thread_that_gets_nowhere_does_not_beat() -> None:
    engine = Engine()
    engine.beats.move()
    assert engine.wait(LOOK_S) == 0
    assert engine.wait(30) == pytest.approx(30)
    engine.beats.move()
    assert engine.wait(LOOK_S) == 0


def test_waiting_for_commands_and_loading_models_may_last() -> None:
    engine = Engine()
    with engine.beats.unwatched():
        assert engine.wait(10_000) == 0
    assert engine.wait(1.0) < 1.0  # it got on
    assert engine.wait(20) >= 19


def test_forwards_are_a_sign_of_life_and_a_long_prompt_may_take_its_time() -> None:
    """A long prompt is one forward of many rows, in which nothing else happens."""
    engine = Engine()
    for _ in range(100):
        engine.model.forwards, engine.model.rows = engine.model.forwards + 1, 1
        assert engine.wait(LOOK_S) == 0
    engine.model.forwards, engine.model.rows = engine.model.forwards + 1, 4096
    assert engine.wait(4096 * ROW_S - 2 * LOOK_S) == 0
    assert engine.wait(40) > 30


def test_a_stopped_process_does_not_beat_and_a_stopped_server_accuses_nobody() -> None:
    engine = Engine()
    engine.server.look()
    for _ in range(8):
        engine.now += LOOK_S
        engine.server.look()
    assert engine.server.quiet_s == pytest.approx(8 * LOOK_S)
    engine.beats.move()
    engine.beats.beat()
    engine.server.look()
    engine.now += 3600  # both were stopped, as a laptop or a container is
    assert engine.server.look() <= 2 * LOOK_S


def test_a_process_that_has_not_begun_yet_is_not_missed() -> None:
    engine = Engine()
    engine.value = 0
    for _ in range(100):
        engine.now += LOOK_S
        assert engine.server.look() == 0


def ready(process: EngineProcess) -> tuple[int, dict[str, Any]]:
    """What `/readyz` says."""

    async def ask() -> httpx.Response:
        app = Starlette(routes=health.routes(Admission(process, Limits())))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
            return await client.get("/readyz")

    answer = asyncio.run(ask())
    return answer.status_code, answer.json()


def quick() -> Any:
    """A silence is noticed soon: only while there is one, since a process that works may have to wait for a core."""
    return mock.patch.object(engine_process, "QUIET_S", 1.0)


def test_a_stopped_process_is_not_ready_and_says_so_until_it_goes_on(engine: EngineProcess) -> None:
    """It stayed ready for the 20 s for which it was stopped, and visitors saw nothing."""
    assert ready(engine)[0] == 200
    with held(engine), quick():
        seen = Seen(engine.run(job()))
        engine.changed.wait_until(lambda: bool(engine.silent), PATIENCE_S)
        status, body = ready(engine)
        assert status == 503 and not body["ready"] and body["says"] == engine.silent
        assert engine.silent.startswith(SILENT)
        late = Seen(engine.run(job()))
        assert late.notes == seen.until(lambda s: bool(s.notes)).notes == [engine.silent]
    assert not {*seen.done().sentences, *late.done().sentences} and seen.ends and late.ends
    assert seen.notes[-1] == ""  # the sentence goes from the page
    engine.changed.wait_until(lambda: not engine.silent, PATIENCE_S)
    assert ready(engine)[0] == 200


@pytest.fixture
def caught() -> Iterator[EngineProcess]:
    process = EngineProcess(LoadSettings(), is_caught_in_a_call, silent_s=3.0)
    assert wait_loaded(process).phase == "ready"
    yield process
    process.close()


def test_a_call_that_never_ends_is_ended_and_visitors_can_run_again(caught: EngineProcess) -> None:
    """It went on for ever: nobody could run until the server was started again."""
    first = caught._process.pid
    with quick():
        run = Seen(caught.run(job())).done()
    assert run.notes == [f"{SILENT} It is ended and started again after 3 s."]
    assert run.sentences == ["The engine process did not answer for 3 s and is being restarted; run again in a moment."]
    assert wait_loaded(caught).phase == "ready" and caught._process.pid != first
    assert not caught.silent and ready(caught)[0] == 200
    assert Seen(caught.run(job())).until(lambda s: "running" in s.states).states == ["running"]


def test_the_page_shows_the_sentence() -> None:
    process = EngineProcess(LoadSettings(), is_caught_in_a_call)

    async def notes() -> list[str]:
        visitor = Visitor()
        visitor.replace(handle := process.run(job()))
        handle.take(Update(handle.job.id, note=SILENT))
        found = []
        async for text in stream(process, visitor, handle):
            found.append(json.loads(text).get("note"))
            if found[-1]:
                break
        return found

    assert asyncio.run(notes())[-1] == SILENT
    process.close()
