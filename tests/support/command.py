"""A command of the command line, run in the test's own process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope_app.cli import command_options
from draftscope_app.cli.main import main


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Ran]


def command_line(capsys: pytest.CaptureFixture[str], *first: str | Path) -> Cli:
    """Runs `draftscope`, with these `first` arguments and those of each call."""

    def run(*arguments: str | Path) -> Ran:
        code = main([str(argument) for argument in (*first, *arguments)])
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run


def instead_of_loading(monkeypatch: pytest.MonkeyPatch, engine: DecodingEngine) -> DecodingEngine:
    """Every command decodes with `engine`, whatever its arguments name."""
    monkeypatch.setattr(command_options, "load", lambda _: engine)
    return engine


def refused(ran: Ran) -> str:
    """Exit code 2, nothing on stdout, and a single sentence on stderr, which is returned."""
    assert (ran.code, ran.out) == (2, "")
    assert "Traceback" not in ran.err
    said = [
        line for line in ran.err.splitlines() if not line.startswith("draftscope: Loading: step")
    ]  # where it is slow
    (sentence,) = said
    assert sentence.startswith("draftscope")
    assert sentence.endswith((".", "?"))
    return sentence
