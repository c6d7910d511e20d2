"""`draftscope check`: what it prints and its exit code."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from rich.text import Text

from draftscope.base.progress import Progress
from draftscope.decode.engine import DecodingEngine
from draftscope.measure.findings import Finding
from draftscope_app.cli import command_options
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.main import main
from tests.support.command import Cli, command_line, instead_of_loading


@pytest.fixture
def cli(pair: DecodingEngine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    instead_of_loading(monkeypatch, pair)
    return command_line(capsys)


def test_check_takes_the_drafter_that_can_run(cli: Cli, pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A target without a draft model drafts n-grams, as in Python."""
    instead_of_loading(monkeypatch, DecodingEngine(pair.target, None, pair.tokenizer))
    checked: list[str] = []
    monkeypatch.setattr("draftscope.measure.check.check", lambda _, name, *more: checked.append(name) or [])
    assert cli("check").code == 0 and checked == ["ngram"]


def test_check_passes_on_a_right_engine(cli: Cli) -> None:
    ran = cli("check", "--drafter", "ngram", "--samples", "500", "--json")
    assert ran.code == 0
    told = ran.json
    said = [line for line in ran.err.splitlines() if line.startswith("draftscope: Checking: ")]
    assert said[0].startswith("draftscope: Checking: greedy identity")
    assert re.search(r": joint distribution, [\d,]+ of [\d,]+ samples; so far no difference, 5 of 10", " ".join(said))
    assert set(told) == {"drafter", "exact", "passed", "undecided", "ties", "verdict", "findings"}
    assert told["passed"]
    assert "no difference was found" in told["verdict"]
    assert {
        "name",
        "passed",
        "detail",
        "samples",
        "ties",
        "undecided",
        "p_value",
        "total_variation",
        "kl",
        "error",
    } == set(told["findings"][0])


def test_a_tie_is_no_difference_and_the_exit_code_is_0(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def findings(*_: object) -> Iterator[Finding]:
        yield Finding("first", True, "as it should be")
        yield Finding("second", True, "parts at a tie", ties=2)

    monkeypatch.setattr("draftscope.measure.check.check", findings)
    ran = cli("check")
    assert ran.code == 0
    assert ran.out.splitlines()[1:] == [
        "tie   second: parts at a tie",
        "The rule is proved; on this pair no difference was found. Ties met: 2; there rounding alone decides the "
        "target's best token.",
    ]


def test_check_exits_with_1_where_a_difference_was_found(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def findings(*_: object) -> Iterator[Finding]:
        yield Finding("first", True, "as it should be")
        yield Finding("second", False, "not as it should be")

    monkeypatch.setattr("draftscope.measure.check.check", findings)
    ran = cli("check")
    assert ran.code == 1
    assert ran.out.splitlines() == [
        "ok    first: as it should be",
        "FAIL  second: not as it should be",
        "A difference was found: second.",
    ]


def test_findings_are_a_table_on_a_terminal(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def findings(
        engine: DecodingEngine, name: str, samples: int, seed: int, watch: Any, *_: object
    ) -> Iterator[Finding]:
        watch(Progress("second test"))
        yield Finding("first", True, "equal [bold]tokens[/bold]")
        yield Finding("second", False, "other tokens")

    monkeypatch.setattr(command_options, "load", lambda _: pair)
    monkeypatch.setattr("draftscope.measure.check.check", findings)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["check"]) == ExitCode.FAILED
    lines = Text.from_ansi(capsys.readouterr().out).plain.splitlines()
    assert [line.split() for line in lines if "tokens" in line][-2:] == [
        ["ok", "first", "equal", "[bold]tokens[/bold]"],
        ["FAIL", "second", "other", "tokens"],
    ]
    assert lines[-1] == "A difference was found: second."
