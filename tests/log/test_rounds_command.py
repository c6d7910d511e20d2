"""`draftscope rounds`."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from draftscope.log import RoundLog
from draftscope.log.read import read
from draftscope_app.cli.exit_codes import ExitCode
from tests.log.test_readers import LLAMA_CPP, VLLM
from tests.support.command import Cli, command_line

TRACE = Path("assets/traces/first.jsonl.gz")


@pytest.fixture
def rounds(capsys: pytest.CaptureFixture[str]) -> Cli:
    return command_line(capsys, "rounds")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "vllm.log").write_text(VLLM)
    return tmp_path / "vllm.log"


def test_it_says_what_the_log_knows_and_what_it_does_not(rounds: Cli, log: Path) -> None:
    ran = rounds(log)
    assert ran.code == ExitCode.OK
    assert "This is vLLM's log." in ran.out and "5.36" in ran.out and "87.8%" in ran.out
    assert "This log does not say how long it took or any single round." in ran.out


def test_a_log_without_positions_shows_none(rounds: Cli, tmp_path: Path) -> None:
    (tmp_path / "llama.log").write_text(LLAMA_CPP)
    ran = rounds(tmp_path / "llama.log")
    assert "1,189" in ran.out and "position" not in ran.out.split("This log does not say")[0]


def test_json(rounds: Cli, log: Path) -> None:
    said = rounds(log, "--json").json
    assert said["rounds"] == 74 and said["positions"][0]["kept"] == 65 and said["tokens_per_s"] is None


def test_the_profile_is_written(rounds: Cli, log: Path, tmp_path: Path) -> None:
    rounds(log, "--profile", tmp_path / "speculation_profile.json")
    made = json.loads((tmp_path / "speculation_profile.json").read_text())
    assert made["num_speculative_tokens"] == 7 and made["validation"]["marginal_monotonicity"]["passed"]


def test_a_trace_becomes_a_log_of_rounds_and_a_table(rounds: Cli, tmp_path: Path) -> None:
    for name in ("a.jsonl", "a.csv", "a.parquet"):
        assert rounds(TRACE, "--to", tmp_path / name).code == ExitCode.OK
    before, after = read(TRACE), read(tmp_path / "a.jsonl")
    assert before.rounds == after.rounds
    table = pd.read_parquet(tmp_path / "a.parquet")
    assert list(table["accepted"]) == [each.accepted for each in before.rounds]
    assert len(pd.read_csv(tmp_path / "a.csv")) == len(before.rounds)


@pytest.mark.parametrize("name", ["a.txt", "a"])
def test_another_ending_is_refused_before_anything_is_read(rounds: Cli, log: Path, tmp_path: Path, name: str) -> None:
    ran = rounds(log, "--to", tmp_path / name)
    assert ran.code == ExitCode.NOT_DONE and ".csv" in ran.err


def test_single_rounds_are_not_made_up(rounds: Cli, log: Path, tmp_path: Path) -> None:
    ran = rounds(log, "--to", tmp_path / "a.jsonl")
    assert ran.code == ExitCode.NOT_DONE and "no single rounds" in ran.err
    assert not (tmp_path / "a.jsonl").exists()


def test_the_log_itself_is_not_overwritten(rounds: Cli, tmp_path: Path) -> None:
    rounds(TRACE, "--to", tmp_path / "a.jsonl")
    ran = rounds(tmp_path / "a.jsonl", "--to", tmp_path / "a.jsonl")
    assert ran.code == ExitCode.NOT_DONE and read(tmp_path / "a.jsonl").rounds


@pytest.mark.parametrize("content", [b"", b"\x00\xff" * 100, b"PAR1", b"hello"])
def test_what_is_no_log_is_one_sentence(rounds: Cli, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    ran = rounds(tmp_path / "x")
    assert ran.code == ExitCode.NOT_DONE and ran.err.count("\n") == 1


def test_a_file_that_is_not_there_is_one_sentence(rounds: Cli, tmp_path: Path) -> None:
    assert rounds(tmp_path / "none").err.count("\n") == 1


def test_acceptance_over_time_is_printed(rounds: Cli, tmp_path: Path) -> None:
    with RoundLog(tmp_path / "rounds.jsonl") as log:
        for number in range(100):
            kept = 4 if number % 5 == 0 else 0
            log.round(drafted=4, accepted=kept, ms=14.0, draft_ms=4.0, position=10 + number)
    said = rounds(tmp_path / "rounds.jsonl").out
    assert "Acceptance over time" in said and "40 to" not in said.split("Acceptance over time")[0]
    assert "After a kept guess 60 of 80 are kept, after a refused one 19 of 79: guesses are not independent." in said
    assert "Drafts of 4 tokens write 1.80 tokens a round; by the mean acceptance it would be 1.94." in said
    assert "pays best by the rounds" in said and "Alarm" not in said


def test_an_alarm_is_said(rounds: Cli, tmp_path: Path) -> None:
    with RoundLog(tmp_path / "rounds.jsonl") as log:
        for _ in range(100):
            log.round(drafted=4, accepted=0)
    assert "Alarm: near nothing is kept" in rounds(tmp_path / "rounds.jsonl").out
