"""That loading is seen: on the page, in the terminal of `serve`, and by a command that loads models."""

from __future__ import annotations

import io
import json
import sys
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

import draftscope
from draftscope.base.load_settings import LoadSettings
from draftscope.base.stages import Stage, tell
from draftscope.decode.engine import DecodingEngine
from draftscope_app.cli import command_options, terminal
from draftscope_app.engine.jobs import EngineStatus
from draftscope_app.engine.notice import Notice
from draftscope_app.engine.process import EngineProcess
from draftscope_app.page.listeners.engine_status import engine_message
from draftscope_app.serve.server import say_loading
from tests.support.runs import wait_loaded
from tests.support.stand_ins import loads_slowly

QUICK = LoadSettings(target="a/folder", dtype="float32")  # for which nothing is compiled


def test_the_page_hears_every_step_and_a_quiet_step_again() -> None:
    """From a real engine process whose loader says nothing for longer than two of the seconds that are counted."""

    engine = EngineProcess(QUICK, loads_slowly)
    sentences, give = [engine_message(engine.status)], engine.changed.give

    def heard() -> None:  # at each change: who looks now and then may come late on a busy machine
        sentences.append(engine_message(engine.status))
        give()

    with mock.patch.object(engine.changed, "give", heard):
        wait_loaded(engine)
    engine.close()
    steps = [said for said in ("starting torch", "31 of 93 MB", "stand-in") if any(said in each for each in sentences)]
    assert steps == ["starting torch", "31 of 93 MB", "stand-in"]
    fetching = {json.loads(each)["engine"] for each in sentences if "fetching the model" in each}
    assert len(fetching) >= 3  # it went on for 0, 1 and 2 s
    assert all("The engine loads folder. Step" in each for each in fetching)


class Loading:
    """An engine that is loading."""

    def __init__(self) -> None:
        self.changed, self.status = Notice(), EngineStatus("loading", "step 1")

    def says(self, phase: Any, sentence: str, comes_back: bool = False) -> None:
        self.status = EngineStatus(phase, sentence, comes_back=comes_back)
        self.changed.give()


def test_the_terminal_of_a_server_hears_it_until_the_models_are_there() -> None:
    engine, heard = Loading(), []

    def say(sentence: str, over: bool) -> None:
        heard.append((sentence, over))
        following = {"step 1": ("loading", "step 2"), "step 2": ("failed", "ended"), "ended": ("ready", "here")}
        if sentence in following:
            phase, next_one = following[sentence]
            engine.says(phase, next_one, comes_back=phase == "failed")

    say_loading(engine, say)  # type: ignore[arg-type]
    assert heard == [("step 1", False), ("step 2", False), ("ended", False), ("here", True)]


def test_in_a_pipe_there_is_a_line_every_few_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    """And none of what is loaded at once."""
    now = [0.0]
    say = terminal.loading_lines(lambda: now[0])
    for second in range(13):
        now[0] = float(second)
        say(f"{second} s", False)
    say("here", True)
    assert capsys.readouterr().err.split("\n") == [
        "draftscope: 4 s", "draftscope: 8 s", "draftscope: 12 s", "draftscope: here", "",
    ]  # fmt: skip
    assert terminal.STEP_S < 5


def test_on_a_terminal_a_sentence_takes_the_place_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(terminal, "get_terminal_size", lambda: SimpleNamespace(columns=11))
    say = terminal.loading_lines()
    say("a sentence that is longer than the line", False)
    say("all of the last sentence stays", True)
    assert screen.getvalue() == "\r\x1b[Ka sentence\r\x1b[Kall of the last sentence stays\n"


def test_a_command_says_how_far_loading_is(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(**_: Any) -> DecodingEngine:
        tell(Stage.FETCH, "31 of 93 MB")
        tell(Stage.CHECK, "a model")
        return pair

    monkeypatch.setattr(terminal, "STEP_S", 0.0)
    monkeypatch.setattr(draftscope, "load", load)
    command_options.load(QUICK)
    said = capsys.readouterr().err
    assert "Loading: step 1 of 6: starting torch." in said
    assert "fetching the model: 31 of 93 MB." in said and "checking the forward: a model." in said
