"""Runs the commands that measure the claims, one after the other within a time box, each into a folder of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from draftscope.base.errors import DraftscopeError
from draftscope.claims.claim import Claim
from draftscope_app.engine import commands

Say = Callable[[str], None]


def commands_to_run(claims: Iterable[Claim]) -> list[str]:
    """The commands of these claims, each once; only those whose files are read."""
    every = dict.fromkeys(claim.command for claim in claims if claim.judge is not None)
    return [command for command in every if commands.runnable(command)]


def run(claims: Iterable[Claim], root: Path, seconds: float, say: Say) -> None:
    """Runs what has no results in `root` yet. A command that fails or takes too long is said, and the next one runs."""
    until = time.monotonic() + seconds
    for command in commands_to_run(claims):
        folder, left = commands.folder_of(command, root), until - time.monotonic()
        if folder.exists() and any(folder.glob("*.json")):
            continue
        if left <= 0:
            say(f"Not run, since the {seconds:g} s are over: {command}")
            continue
        say(f"Running {command} ...")
        folder.mkdir(parents=True, exist_ok=True)
        if reason := _run(command, folder, left):
            say(reason)


def _run(command: str, folder: Path, seconds: float) -> str:
    """Runs one command; returns why it gave no results, or nothing."""

    async def run() -> None:
        async for _ in commands.running(command, folder, seconds):
            pass

    try:
        asyncio.run(run())
    except DraftscopeError as error:
        return str(error)
    return ""
