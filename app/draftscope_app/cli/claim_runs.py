"""Runs the commands that measure the claims, one after the other within a time box, each into a folder of its own."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from draftscope.claims.claim import Claim

Say = Callable[[str], None]
RUNNABLE = ("bench", "regret", "advise")  # commands whose files are read


def commands(claims: Iterable[Claim]) -> list[str]:
    """The commands of these claims, each once; only those whose files are read."""
    every = dict.fromkeys(claim.command for claim in claims if claim.judge is not None)
    return [command for command in every if command.split()[1] in RUNNABLE]


def folder_of(command: str, root: Path) -> Path:
    """'draftscope bench --quick --batch 1,4' -> root/bench-quick-batch-1-4."""
    return root / re.sub(r"[^A-Za-z0-9]+", "-", command.removeprefix("draftscope ")).strip("-")


def run(claims: Iterable[Claim], root: Path, seconds: float, say: Say) -> None:
    """Runs what has no results in `root` yet. A command that fails or takes too long is said, and the next one runs."""
    until = time.monotonic() + seconds
    for command in commands(claims):
        folder, left = folder_of(command, root), until - time.monotonic()
        if folder.exists() and any(folder.glob("*.json")):
            continue
        if left <= 0:
            say(f"Not run, since the {seconds:g} s are over: {command}")
            continue
        say(f"Running {command} ...")
        folder.mkdir(parents=True, exist_ok=True)
        if reason := _run(command, folder, left):
            say(f"{command} gave no results: {reason}.")


def _run(command: str, folder: Path, seconds: float) -> str:
    """Runs one command; returns why it gave no results, or nothing."""
    arguments = shlex.split(command)[1:]
    advice = arguments[0] == "advise"
    to = [] if advice else ["--out", str(folder)]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "draftscope_app.cli.main", *arguments, *to],
            capture_output=True, text=True, timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "the time was over"
    if done.returncode:
        return " ".join(done.stderr.split())[-300:] or f"exit code {done.returncode}"
    if advice:
        (folder / "advice.json").write_text(done.stdout, encoding="utf-8")
    return ""
