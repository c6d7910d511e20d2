"""A name that somebody wrote is cut in every message, wherever the message was written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from draftscope import drafters, load
from draftscope.base.errors import MAX_NAMED, DraftscopeError
from draftscope.trace import files
from draftscope_app.cli.main import main

LONG = "x" * 5000
WORDS = "once upon a time " * 400


@pytest.mark.parametrize(
    "arguments",
    [
        ["decode", "a", "--drafter", LONG],
        ["decode", "a", "--target", LONG],
        ["decode", "a", "--target", f"/tmp/{LONG}"],
        ["decode", "a", "--gamma", LONG],
        ["decode", "a", "--shape", LONG],
        ["decode", "a", "--dtype", LONG],
        ["decode", "a", "--head", LONG],
        ["decode", "a", "--draft-length", WORDS],
        ["replay", f"/tmp/{LONG}.jsonl"],
        ["export", f"/tmp/{LONG}.jsonl", "--to", LONG],
        ["bench", "--prompts", LONG],
        ["check", "--rule", LONG],
        ["check", "--draft-length", LONG],
        ["serve", "--host", LONG],
        ["space", "push", LONG],
        ["train", LONG],
    ],
    ids=lambda arguments: " ".join(each[:20] for each in arguments),
)
def test_a_commands_message_is_short(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) != 0
    said = capsys.readouterr().err
    assert said
    assert len(re.sub(r"[│╭╮╰╯─\s]", "", said)) < 1500
    assert LONG[: 2 * MAX_NAMED] not in re.sub(r"[│\s]", "", said)


def test_a_message_of_the_engine_is_short() -> None:
    for wrong in (
        lambda: drafters.find(LONG),
        lambda: load(target=LONG),
        lambda: files.read(Path(f"/tmp/{LONG}")),
        lambda: load(dtype=WORDS),
    ):
        with pytest.raises(DraftscopeError) as said:
            wrong()
        assert len(str(said.value)) < 3 * MAX_NAMED + 200


def test_what_is_cut_keeps_its_ends_and_shorter_names_are_whole() -> None:
    path = "/home/" + "a" * 300 + "/run.jsonl.gz"
    said = str(DraftscopeError(f"The trace '{path}' cannot be read; check the name."))
    assert said.startswith("The trace '/home/aaa")
    assert said.endswith("/run.jsonl.gz' cannot be read; check the name.")
    assert "..." in said
    name = "b" * MAX_NAMED
    assert name in str(DraftscopeError(f"There is no drafter '{name}'; choose one."))
    assert str(DraftscopeError("half a pair: \ud800")) == "half a pair: \\ud800"
