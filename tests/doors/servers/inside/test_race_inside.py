"""A vLLM that records itself beside a plain server: its rounds and the other's bursts, asked at the same moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from draftscope.base.steps import said
from draftscope.servers.adapter import Request, ServerError
from draftscope.servers.programs.program_list import identify
from draftscope.servers.server_race import Race, RaceLane, RacePrompt
from draftscope.servers.traced import Traced, traced
from draftscope.trace import files
from draftscope.trace.events import AnyEvent, Burst, Round, RunEnd, RunStart, Served
from draftscope.trace.validate import validate
from draftscope_app.cli.main import main
from tests.doors.servers.inside.server import ROUTE, Recorded
from tests.doors.servers.stubs import Habits, stub, written

TOKENS, REPEATS = 24, 2
NAME = "draftscope-asked"
PROMPT = RacePrompt("a", (1, 2, 3), " w1 w2 w3")
Write = Callable[[list[int], int, float, int | None], list[int]]


def met(write: Write) -> tuple[Write, Write]:
    """Both write only once both were asked; before that, each has written its warm-up alone."""
    both = Barrier(2)

    def waiting(write: Write) -> Write:
        calls = iter(range(1 + REPEATS))

        def call(*asked: object) -> list[int]:
            if next(calls):
                both.wait(30)
            return write(*asked)  # type: ignore[arg-type]

        return call

    def plainly(*asked: object) -> list[int]:
        return written(Habits(), *asked)  # type: ignore[arg-type]

    return waiting(plainly), waiting(write)


@contextmanager
def lanes(recorded: Recorded) -> Iterator[tuple[RaceLane, RaceLane, Habits]]:
    """A plain server, one that records itself, and what the latter was asked."""
    plainly, drafting = met(recorded.write)
    habits = Habits(burst=2, write=drafting, routes={ROUTE: recorded.answer})
    with (
        stub(Habits(write=plainly)) as plain, stub(habits) as fast,
        identify(plain) as one, identify(fast) as other,
    ):  # fmt: skip
        yield RaceLane("plain", one), RaceLane("fast", other), habits


def raced(recorded: Recorded) -> tuple[list[AnyEvent], list[str]]:
    """The events, and the names under which the recorder was asked to record."""
    plan = Race([PROMPT], Request((0,), TOKENS, temperature=1.0), REPEATS, recorded={"fast": NAME})
    with lanes(recorded) as (plain, fast, habits):
        events = list(said(traced(Traced("r1", [plain, fast], {}, plan))))
    validate(events)
    return events, [body["request_id"] for _, body in habits.asked if "request_id" in body]


def test_one_lane_has_its_rounds_and_the_other_its_bursts_of_the_same_moment() -> None:
    recorded = Recorded()
    events, names = raced(recorded)
    assert names == [NAME]
    starts = {event.lane: event.server for event in events if isinstance(event, RunStart)}
    assert [bool(server and server.inside) for server in starts.values()] == [False, True]
    rounds = [event for event in events if isinstance(event, Round)]
    assert {event.lane for event in rounds} == {"fast"}
    assert {event.lane for event in events if isinstance(event, Burst)} == {"plain"}
    assert [token for event in rounds for token in event.emitted] == recorded.written
    assert any(event.nodes and event.decisions for event in rounds)
    ends = {event.lane: event for event in events if isinstance(event, RunEnd)}
    assert {name: (len(end.token_ids), end.reason) for name, end in ends.items()} == {
        "plain": (TOKENS, "length"), "fast": (TOKENS, "length"),
    }  # fmt: skip
    served = {event.lane: event for event in events if isinstance(event, Served)}  # the latest of each
    assert [len(served[name].seconds) for name in ("plain", "fast")] == [REPEATS, REPEATS]
    first = 1e-3 * rounds[0].end  # seconds: it arrived here, and was not only written there
    assert first == pytest.approx(1e-3 * served["fast"].ttft_ms[0])


@pytest.mark.parametrize(
    ("recorded", "why", "shown"),
    [
        (Recorded(lost=3), "lacks the next round", 3),
        (Recorded(fault="not a number"), "Round 1 of the server cannot be drawn: p is not a number", 0),
    ],
)
def test_a_round_that_cannot_be_shown_ends_its_lane_and_not_the_race(recorded: Recorded, why: str, shown: int) -> None:
    events, _ = raced(recorded)
    ends = {event.lane: event for event in events if isinstance(event, RunEnd)}
    assert ends["plain"].reason == "length"
    assert ends["fast"].reason == "error" and why in ends["fast"].message
    assert sum(isinstance(event, Round) for event in events) == shown
    assert [event.failed for event in events if isinstance(event, Served) and event.lane == "fast"][-1] == 0


def test_a_server_without_a_recorder_is_refused_before_anything_is_shown() -> None:
    plan = Race([PROMPT], Request((0,), TOKENS), recorded={"plain": NAME})
    with stub(Habits()) as url, identify(url) as server, pytest.raises(ServerError, match="install draftscope-vllm"):
        next(iter(traced(Traced("r1", [RaceLane("plain", server)], {}, plan))))


def test_the_command_writes_the_rounds_of_a_lane_into_its_trace(tmp_path: Path, capsys: Any) -> None:
    path, recorded = tmp_path / "race.jsonl.gz", Recorded()
    with lanes(recorded) as (plain, fast, _):
        servers = [f"--server={lane.name}={lane.server.identity.url}" for lane in (plain, fast)]
        law = ["--raw", "--tokens", str(TOKENS), "--temperature", "1", "--repeats", str(REPEATS)]
        asked = ["race", "w1 w2", *servers, *law, "--trace", str(path)]
        assert main([*asked, "--inside", "slow"]) == 2
        assert "--inside slow: write one of plain, fast" in capsys.readouterr().err
        assert main([*asked, "--inside", "fast"]) == 0
    events = files.read(path).events
    assert {event.lane for event in events if isinstance(event, Round)} == {"fast"}
    assert {event.lane for event in events if isinstance(event, Burst)} == {"plain"}
