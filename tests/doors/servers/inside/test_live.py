"""A vLLM's recorded rounds as a run of the trace: while they are written, from the list, and on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from draftscope.servers.adapter import ServerError
from draftscope.servers.inside.recording import RecordedRound
from draftscope.servers.inside.translation import Translation
from draftscope.trace import events as trace
from draftscope.trace import files
from draftscope.trace.validate import validate
from draftscope_app.cli.main import main
from tests.doors.servers.inside.made_up import recording
from tests.doors.servers.inside.server import recorded_by
from tests.doors.servers.stubs import VOCABULARY

TOKENS = 60


def translated(rounds: list[RecordedRound], most: int | None = None) -> list[trace.Round]:
    translation = Translation("run", "inside", lambda token: f" w{token}")
    return [translation.round(each, most) for each in rounds]


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_recorded_rounds_are_rounds_of_a_valid_trace(temperature: float) -> None:
    recorded = recording(3, 40, temperature=temperature)
    events = translated(recorded)
    assert [event.emitted for event in events] == [each.written for each in recorded]
    decided = [(child, token) for event, each in zip(events, recorded, strict=True)
               for decision, token in zip(event.decisions, each.drafted, strict=False)
               for child in decision.children]  # fmt: skip
    assert len(decided) > 50
    for child, token in decided:
        assert (child.p, child.q if temperature else token.q, child.uniform) == (token.p, token.q, token.u)
        assert child.passed == token.accepted
    assert {event.last.kind for event in events} == ({"correction", "bonus"} if temperature else {"correction"})
    assert all(event.last.uniform is None for event in events)  # of one number nothing is drawn there


def test_a_q_that_the_server_does_not_send_is_named_and_not_made_up() -> None:
    recorded = recording(3, 10, drawn=False)
    events = translated(recorded)
    assert all(node.q is None for event in events for node in event.nodes)
    assert all(note.q_unknown for event in events for note in event.annotations)
    [child] = events[0].decisions[0].children
    assert child.q == 1.0 and child.threshold == child.p


def test_a_round_with_a_p_that_is_not_a_number_is_refused_with_where_it_is() -> None:
    with pytest.raises(ServerError, match="Round 1 of the server cannot be drawn: p is not a number"):
        translated(recording(3, 5, "not a number"))


def test_a_verdict_that_does_not_follow_is_refused() -> None:
    with pytest.raises(ServerError, match=r"cannot be drawn: node \d passed"):
        translated(recording(1, 150, "accepts too often"))


def test_inside_prints_the_answer_and_records_a_trace(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "run.jsonl.gz"
    with recorded_by() as (url, server):
        asked = ["--max-new-tokens", str(TOKENS), "--temperature", "1", "--raw"]
        assert main(["inside", url, "w1 w2", *asked, "--trace", str(path)]) == 0
    events = files.read(path).events
    validate(events)
    start, *rounds, end = events
    assert isinstance(start, trace.RunStart) and start.server is not None and start.server.inside
    assert isinstance(end, trace.RunEnd) and (end.reason, end.token_ids) == ("length", server.written)
    assert len(end.token_ids) == TOKENS and max(end.token_ids) < VOCABULARY
    assert isinstance(rounds[-1], trace.Round) and rounds[-1].cut == "length"
    assert capsys.readouterr().out.strip() == end.text.strip()
    assert main(["replay", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["lanes"][0]["token_ids"] == server.written


def test_a_round_that_the_recorder_lost_ends_the_run_and_keeps_what_came_before(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "run.jsonl"
    with recorded_by(lost=3) as (url, _):
        asked = ["inside", url, "w1", "--raw", "--max-new-tokens", str(TOKENS)]
        assert main([*asked, "--temperature", "1", "--trace", str(path)]) == 2
    assert "lacks the next round" in capsys.readouterr().err
    events = files.read(path).events
    assert [event.kind for event in events] == ["run_start", "round", "round", "round", "run_end"]


def test_what_a_server_decides_itself_is_no_option(capsys: Any) -> None:
    assert main(["inside", "http://127.0.0.1:1", "Hello", "--gamma", "3"]) == 2
    assert "No such option: --gamma" in capsys.readouterr().err
