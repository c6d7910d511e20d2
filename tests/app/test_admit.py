"""Which texts are taken is said in one place, whatever they come through: `draftscope.base.admit`."""

from __future__ import annotations

import asyncio
import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

import draftscope
import draftscope_app
from draftscope.api import Engine
from draftscope.base import admit as admitting
from draftscope.base import prompts as prompt_files
from draftscope.base.errors import DraftscopeError
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope_app.page.listeners.runs import RunListeners
from draftscope_app.serve import decode_endpoint
from tests.support.bare_page import MOST, bare_page, first_note
from tests.support.command import Cli, command_line, instead_of_loading

ODD, HALF = "\u00df", "a\ud800"
OTHERS = r"\\ud[89a-fA-F]|surrogate\w* pair|rompt is empty; write"  # of a check somewhere else
Entry = Callable[[str], object]


def of_page(text: str) -> None:
    shared, controls = bare_page()
    widgets: Any = SimpleNamespace(controls=controls)
    raise DraftscopeError(first_note(RunListeners(shared, widgets).run, controls, text))


def of_program(text: str) -> None:
    shared, _ = bare_page()
    decode = decode_endpoint.endpoint(shared.admission, shared.visitors)
    try:
        asyncio.run(decode(gr.Request(session_hash="a"), text, *decode_endpoint.defaults()))
    except gr.Error as error:
        raise DraftscopeError(error.message) from None


@pytest.fixture
def entries(pair: DecodingEngine, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Entry]:
    engine, ngram = Engine(pair.target, pair.draft, pair.tokenizer), Settings.of(drafter="ngram")
    file = tmp_path / "prompts.jsonl"

    def of_file(text: str) -> None:
        file.write_text(json.dumps({"prompt": text}) + "\n")
        prompt_files.read(file)

    def of_command(*words: str) -> None:
        if (ran := cli(*words)).code:
            raise DraftscopeError(ran.err)

    def of_standard_input(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        of_command("decode", "-")

    return {
        "decode": engine.decode,
        "decode, of a list": lambda text: engine.decode([text], progress=False),
        "rounds": lambda text: next(engine.rounds(text)),
        "start": lambda text: engine.start(text, ngram),
        "encode": engine.encode,
        "race": lambda text: engine.race(text, progress=False),
        "compare": lambda text: engine.compare(text, "ngram", progress=False),
        "check": lambda text: engine.check("ngram", prompts=[text], progress=False),
        "bench": lambda text: engine.bench([text]),
        "a file of prompts": of_file,
        "the command line": lambda text: of_command("decode", text),
        "standard input": of_standard_input,
        "the page": of_page,
        "a program's call": of_program,
    }


@pytest.fixture
def cli(pair: DecodingEngine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    instead_of_loading(monkeypatch, pair)
    return command_line(capsys)


def sentence(entry: Entry, text: str) -> str:
    with pytest.raises(DraftscopeError) as refused:
        entry(text)
    return str(refused.value)


def test_every_entry_refuses_a_text_in_the_same_words(entries: dict[str, Entry]) -> None:
    for text in ("", HALF, "x" * (MOST + 1)):
        with pytest.raises(DraftscopeError) as wanted:
            admitting.admit({"prompt": text}, MOST)
        words = str(wanted.value).split(";")[0].removesuffix(".")
        for name, entry in entries.items():
            limited = name not in ("bench", "a file of prompts") or len(text) <= MOST  # bounded as files are
            assert not limited or words in sentence(entry, text), (name, text[:9])


def test_no_entry_has_a_check_of_its_own(entries: dict[str, Entry], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each refuses what the one place refuses, another character here, and says so in its words."""
    monkeypatch.setattr(admitting, "_HALF", re.compile(ODD))
    for name, entry in entries.items():
        assert "prompt contains \\u00df, which is half of a character" in sentence(entry, ODD), name


def test_no_other_source_looks_for_half_a_character_or_says_that_a_prompt_is_empty() -> None:
    for package in (draftscope, draftscope_app):
        for path in Path(str(package.__file__)).parent.rglob("*.py"):
            if path != Path(admitting.__file__) and path.name != "printable.py":  # which writes any text for a terminal
                found = re.findall(OTHERS, path.read_text(encoding="utf-8"))
                assert not found, path
