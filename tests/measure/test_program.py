"""Programs run by `python -m`: a report on the screen and in a file, and a sentence for wrong input."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from draftscope.base.errors import DraftscopeError
from draftscope.measure import program


def asked(parser: argparse.ArgumentParser, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["program", *words.split()])
    program.run(parser, lambda given: f"{given.rows} rows")


def test_the_report_is_printed_and_saved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int)
    asked(parser, f"--rows 3 --save {tmp_path / 'report.md'}", monkeypatch)
    assert capsys.readouterr().out == (tmp_path / "report.md").read_text() == "3 rows\n"


def test_wrong_input_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(_: argparse.Namespace) -> str:
        raise DraftscopeError("3 rows: choose 4.")

    monkeypatch.setattr("sys.argv", ["program"])
    with pytest.raises(SystemExit) as ended:
        program.run(argparse.ArgumentParser(), refused)
    assert ended.value.code == program.WRONG_INPUT
    assert capsys.readouterr() == ("", "3 rows: choose 4.\n")
