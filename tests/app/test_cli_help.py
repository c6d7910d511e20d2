"""Help, completion, exit codes and terminals: what the command line shows around its commands."""

from __future__ import annotations

import ast
import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal
from unittest.mock import Mock

import pytest
import typer
from pydantic import Field
from rich.console import Console
from rich.text import Text
from typer.main import get_command

import draftscope_app
from draftscope.base.costs import Calibration, save
from draftscope.base.steps import Steps
from draftscope.decode import calibration
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters import DrafterInfo, DrafterOptions, registry
from draftscope.drafters.settings import known_settings
from draftscope.models.native.available import instructions
from draftscope_app.cli import command_options, fields
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.main import COMMANDS, main
from draftscope_app.cli.terminal import Table
from tests.support.models import made_calibration

COMMAND = (sys.executable, "-m", "draftscope_app.cli.main")
LOADING = (
    "--target", "--draft", "--dtype", "--device", "--threads", "--head", "--emulate", "--graphs", "--no-graphs",
    "--revision", "--draft-revision", "--device-map", "--trust-remote-code", "--allow-pickle",
)  # fmt: skip


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command prints, which must end well and say nothing on stderr."""
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return Text.from_ansi(out).plain


@pytest.mark.parametrize(("option", "expected"), [("-h", "Usage: draftscope"), ("--version", version("draftscope"))])
def test_short_help_and_version(capsys: pytest.CaptureFixture[str], option: str, expected: str) -> None:
    assert expected in shown(capsys, option)


def test_help_lists_every_command_in_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    listed: dict[str, str] = {}
    panel = ""
    for line in shown(capsys, "--help").splitlines():
        if line.startswith("\u256d"):
            panel = line.strip("\u256d\u2500\u256e ")
        elif (words := line.strip("\u2502 ").split()) and words[0] in COMMANDS:
            listed[words[0]] = panel
            assert " ".join(words[1:]) == COMMANDS[words[0]][0].summary
    assert listed == {name: command.panel for name, (command, _) in COMMANDS.items()}
    assert len(set(listed.values())) > 3


def test_options_of_a_run_are_grouped(capsys: pytest.CaptureFixture[str]) -> None:
    """Every setting and every loading option has its place in the help, with its range and default."""
    text = shown(capsys, "decode", "--help")
    panels = [line.strip("\u256d\u2500\u256e ") for line in text.splitlines() if line.startswith("\u256d")]
    assert panels[2:8] == ["Drafter options", "Sampling", "Prompt", "Models", "Loading", "Output"]
    named = {word for word in text.split() if word.startswith("--")}
    assert {f"--{name.replace('_', '-')}" for name in known_settings()} < named
    assert set(LOADING) < named
    assert "drafted tokens in a chain [1 to 64; default: 4]" in " ".join(text.replace("\u2502", " ").split())


@pytest.mark.parametrize("command", COMMANDS)
def test_help_breaks_its_lines_where_the_terminal_ends(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Nor does it ask for a value behind a switch, or name types of Python."""
    monkeypatch.setenv("COLUMNS", "80")
    text = shown(capsys, command, "--help")
    assert text.split()[:3] == ["Usage:", "draftscope", command]
    assert not re.search(r"<(bool|str|path)>", text)
    lines = [line.strip() for line in text.partition("\u256d")[0].splitlines()]
    for line, following in pairwise(lines):
        assert not line or not following or len(line) + len(following.split()[0]) > 76


def test_a_default_in_the_help_is_the_one_that_holds(capsys: pytest.CaptureFixture[str]) -> None:
    def joined(command: str) -> str:
        return " ".join(shown(capsys, command, "--help").replace("\u2502", " ").split())

    assert "default: smollm2, else embedded" in joined("serve")
    assert "lists them; default: the usual one for these models --gamma" in joined("decode")


class BeamOptions(DrafterOptions):
    """Options that a drafter of another package declares."""

    beam_width: int = Field(default=3, ge=1, le=9, description="beams [of a plug-in]")
    beam_sizes: tuple[int, ...] = Field(default=(1, 2), description="sizes")
    beam_words: tuple[str, ...] = Field(default=(), description="words")
    beam_kind: Literal["wide", "deep"] = Field(default="wide", description="kind of beam")
    beam_greedy: bool = Field(default=False, description="greedy beams")
    beam_rate: float | None = Field(default=None, gt=0, description="rate")


def test_an_option_of_another_packages_drafter_is_an_option_here(monkeypatch: pytest.MonkeyPatch) -> None:
    info = DrafterInfo("beam", "Beams", "", Mock(), BeamOptions)
    entry = Mock(value="beam_package:INFO", load=lambda: info)
    entry.name = "beam"
    monkeypatch.setattr(registry, "installed", lambda: (entry,))
    own = typer.Typer(add_completion=False)
    seen: dict[str, Any] = {}

    @own.command()
    @fields.takes(chosen=command_options.settings_options())
    def run(chosen: fields.Given) -> int:
        seen.update(chosen)
        return 0

    command = get_command(own)
    words = ["--beam-width", "5", "--beam-sizes", "3,4", "--beam-words", "a, b,c", "--beam-greedy"]
    command.main([*words, "--beam-kind", "deep", "--beam-rate", "0.5"], standalone_mode=False)
    assert command_options.settings(seen).options(BeamOptions) == BeamOptions(
        beam_width=5, beam_sizes=(3, 4), beam_words=("a", "b", "c"), beam_greedy=True, beam_kind="deep", beam_rate=0.5
    )
    about = {option.name: option.annotation.__metadata__[0] for option in command_options.settings_options()}
    assert about["beam_width"].help == r"beams \[of a plug-in] \[1 to 9; default: 3]"
    assert about["beam_kind"].help == r"kind of beam \[wide, deep; default: wide]"
    assert about["beam_rate"].help == r"rate \[above 0]"
    assert {about[name].rich_help_panel for name in about if name.startswith("beam")} == {command_options.DRAFTER}


def test_exit_codes_are_listed_once() -> None:
    """No other file has an exit code of its own, in a constant or a comparison."""
    assert {code.name: code.value for code in ExitCode} == {
        "OK": 0,
        "FAILED": 1,
        "NOT_DONE": 2,
        "UNDECIDED": 3,
        "INTERRUPTED": 130,
        "READER_GONE": 141,
    }
    root = Path(draftscope_app.__file__).parents[2]
    found = [
        path.name
        for folder in ("engine/draftscope", "app/draftscope_app")
        for path in (root / folder).rglob("*.py")
        if "130" in (text := path.read_text("utf-8"))
        and any(isinstance(n, ast.Constant) and str(n.value) == "130" for n in ast.walk(ast.parse(text)))
    ]
    assert found == ["exit_codes.py"]


# Tables and terminals.


def test_a_table_in_a_pipe_is_aligned_text() -> None:
    rows = [("a", "10.5", "[bold]no markup[/bold]"), ("longer", "2.0", "")]
    table = Table(("name", "GB", "note"), rows, numbers=frozenset({1}))
    assert table.plain().splitlines() == [
        "name      GB  note",
        "a       10.5  [bold]no markup[/bold]",
        "longer   2.0",
    ]
    console = Console(file=io.StringIO(), width=80)
    console.print(table.rich())
    assert isinstance(console.file, io.StringIO)
    assert "[bold]no markup[/bold]" in console.file.getvalue()


def on_a_terminal(*arguments: str | Path, **environment: str) -> str:
    """What `draftscope` writes where stdout is a terminal of 100 columns."""
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    command = [*COMMAND, *map(str, arguments)]
    own = {"TERM": "xterm-256color", **environment}
    process = subprocess.Popen(command, stdout=end, env={k: v for k, v in os.environ.items() if "COL" not in k} | own)
    os.close(end)
    parts = []
    with suppress(OSError):  # Linux says so where the other end is closed
        while part := os.read(terminal, 65536):
            parts.append(part)
    os.close(terminal)
    assert process.wait() == 0
    return b"".join(parts).decode()


def in_a_pipe(*arguments: str | Path) -> str:
    wanted = ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS")  # with these Typer colours pipes too
    own = {name: value for name, value in os.environ.items() if name not in wanted}
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, env=own, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_colours_are_for_terminals_that_want_them(recorded: Path) -> None:
    coloured, plain = on_a_terminal("--help"), on_a_terminal("--help", NO_COLOR="1")
    assert re.search(r"\x1b\[[0-9;]*3[0-7]m", coloured)
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", plain)
    drawn, piped = on_a_terminal("replay", recorded), in_a_pipe("replay", recorded)
    assert "mean acceptance length" in drawn
    assert "\u2500\u2500" in drawn
    assert "\u2500" not in piped
    assert "\x1b" not in piped + in_a_pipe("--help")


def test_calibrate_prints_what_it_measured(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = made_calibration()
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path))
    save(found)

    def measured() -> Steps[None, Calibration]:
        yield None
        return found

    monkeypatch.setattr(command_options, "load", lambda _: pair)
    monkeypatch.setattr(calibration, "calibration_of", lambda *_: measured())
    assert json.loads(shown(capsys, "calibrate", "--json")) == json.loads(found.model_dump_json())
    lines = shown(capsys, "calibrate").splitlines()
    assert f"; CPU ({instructions()}), " in lines[0]
    assert f"One round of plain decoding: {found.plain_ms:.2f} ms" in lines[1]
    head = next(line for line in lines if line.startswith("batch"))
    assert head.split()[1:] == ["1", "2", "3", "4", "5", "7", "9", "17", "33", "65"]
    alone = next(line for line in lines if line.split()[:1] == ["1"])
    assert alone.split()[1] == f"{found.verify_ms(1) / found.plain_ms:.2f}"
    title = (
        "draft: c = 0.100 (a draft step, 0.50 ms), j = 0.050 (judging a token, 0.25 ms), o = 0.200 (the rest, 1.00 ms)"
    )
    costs = lines[lines.index(title) + 2].split()
    assert costs == ["1", *(f"{found.round_cost('draft', gamma):.2f}" for gamma in (1, 2, 3, 4, 6, 8))]
    printed = float(next(line for line in lines if line.split()[:1] == ["1"]).split()[1])
    assert 2 * (0.1 + 0.05) + found.v(3) + 0.2 == pytest.approx(float(costs[2]), abs=0.005)  # the parts add up
    assert printed == pytest.approx(found.v(1))
    (tmp_path / "file").touch()
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path / "file"))
    assert main(["calibrate"]) == ExitCode.OK
    assert "cannot be written, so this is not kept; set DRAFTSCOPE_CACHE to another folder." in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_the_shell_completes_commands_and_options(shell: str) -> None:
    """Typer's own; its script asks `draftscope` what could come next."""
    environment = os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    script = subprocess.run(
        [*COMMAND, "--show-completion", shell], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert f"_DRAFTSCOPE_COMPLETE=complete_{shell}" in script

    def completed(line: str) -> str:
        asked = {"_DRAFTSCOPE_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": line, "COMP_WORDS": line}
        asked |= {"COMP_CWORD": str(len(line.split()) - 1), "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
        return subprocess.run(COMMAND, env=environment | asked, capture_output=True, text=True, check=False).stdout

    assert "replay" in completed("draftscope re")
    assert "--temperature" in completed("draftscope decode --tem")
    if shell == "bash":
        assert completed("draftscope decode --rule t").split() == ["token", "typical", "top-k"]
