"""Files that a command is given are read up to a bound, and what has no end gets a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import command_line


@pytest.mark.parametrize(
    "words",
    [
        ("forecast", "--validate", "FILE"), ("forecast", "FILE"), ("forecast", "Qwen3-8B", "--draft", "FILE"),
        ("audit", "http://127.0.0.1:9", "--plain", "http://127.0.0.1:9", "--baseline", "FILE"),
        ("audit", "http://127.0.0.1:9", "--plain", "http://127.0.0.1:9", "--prompts", "FILE"),
        ("audit", "http://127.0.0.1:9", "--inside", "--prompts", "FILE"),
        ("race", "--server", "a=http://127.0.0.1:9", "--prompts", "FILE"),
        ("advise", "--prompts", "FILE", "--threads", "1"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_file_without_an_end_gets_a_sentence(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.json"
    path.symlink_to("/dev/zero")
    ran = command_line(capsys)(*(str(path) if word == "FILE" else word for word in words))
    assert ran.code == 2 and "more than 64 MiB, the most that is read" in ran.err and ran.err.count("\n") == 1
