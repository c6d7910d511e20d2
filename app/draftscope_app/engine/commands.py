"""Commands of the command line in processes of their own, each with a folder for its results."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

from draftscope.base.errors import DraftscopeError

RUNNABLE = ("bench", "regret", "advise")  # commands whose files are read
LOOK_S = 0.5  # how often it is looked whether a command has ended


def runnable(command: str) -> bool:
    """Whether the page can run this command and read its results."""
    return command.split()[1] in RUNNABLE


def folder_of(command: str, root: Path) -> Path:
    """'draftscope bench --quick --batch 1,4' -> root/bench-quick-batch-1-4."""
    return root / re.sub(r"[^A-Za-z0-9]+", "-", command.removeprefix("draftscope ")).strip("-")


def arguments(command: str, folder: Path) -> list[str]:
    """What to start for 'draftscope ...', so that its results lie in `folder` after `keep`."""
    words = shlex.split(command)[1:]
    to = [] if words[0] == "advise" else ["--out", str(folder)]
    return [sys.executable, "-m", "draftscope_app.cli.main", *words, *to]


def keep(command: str, folder: Path, printed: str) -> None:
    """Saves the results of a command that prints them."""
    if shlex.split(command)[1] == "advise":
        (folder / "advice.json").write_text(printed, encoding="utf-8")


def reason(returned: int, errors: str) -> str:
    """Why a command gave no results; empty if it did."""
    words = " ".join(errors.split()).replace("draftscope: ", "")  # which begins each of its messages
    return (words[-300:] or f"exit code {returned}") if returned else ""


async def running(command: str, folder: Path, seconds: float) -> AsyncGenerator[float]:
    """Runs a command and yields again and again for how many seconds it has run. Closing the iterator ends it.

    Raises `DraftscopeError` if it fails or takes longer than `seconds`.
    """
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *arguments(command, folder), stdout=pipe, stderr=pipe, start_new_session=True
    )
    ended = asyncio.create_task(process.communicate())
    began = time.monotonic()
    try:
        while not ended.done():
            spent = time.monotonic() - began
            if spent > seconds:
                raise DraftscopeError(f"{command} was stopped after {seconds:.0f} s; run it in a terminal.")
            yield spent
            await asyncio.wait({ended}, timeout=LOOK_S)
        out, errors = ended.result()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with the servers that a benchmark starts
            await ended
    if why := reason(process.returncode or 0, errors.decode(errors="replace")):
        raise DraftscopeError(f"{command} gave no results: {why.rstrip('.')}.")
    keep(command, folder, out.decode())
