"""`draftscope advise`: prompts in a file, and other work that disturbs what it measures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from draftscope.decode.engine import DecodingEngine
from tests.support.command import Cli, command_line, instead_of_loading
from tests.support.models import made_calibration


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return command_line(capsys)


def test_advice_on_a_busy_machine_is_undecided(cli: Cli, pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    instead_of_loading(monkeypatch, DecodingEngine(pair.target, pair.draft, pair.tokenizer))  # it forgets its costs
    busy = made_calibration(doubts=["While rounds were timed, other processes kept 2 cores busy."])
    monkeypatch.setattr(DecodingEngine, "calibrated", lambda *_: iter_of(busy))
    for more in ((), ("--alpha", ".5")):
        ran = cli("advise", *more)
        assert ran.code == 3 and "kept 2 cores busy" in ran.err


def iter_of(result: Any) -> Iterator[Any]:
    """Steps that end at once with this result."""
    yield from ()
    return result


def test_advice_takes_prompts_as_messages(
    cli: Cli, pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As SPEED-Bench has them."""
    instead_of_loading(monkeypatch, pair)
    prepared = tmp_path / "throughput_1k.jsonl"
    said = [{"role": "user", "content": text} for text in ("Sort this.", "Tell me a story.")]
    lines = [{"category": "low_entropy", "messages": [message], "source": "mt-bench"} for message in said]
    prepared.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    small = ("--seconds", "2", "--length", "12", "--drafters", "ngram", "--temperature", "1", "--json")
    ran = cli("advise", "--prompts", prepared, *small)
    assert ran.code == 0, ran.err
    assert ran.json["verdict"] and [each["candidate"]["drafter"] for each in ran.json["measured"]] == ["ngram"]
