"""Where results come from: the machine, in words, and the version of this project that is running."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def machine_words(machine: Mapping[str, object]) -> str:
    """`device CPU, threads 2`; what is empty is left out."""
    return ", ".join(f"{name} {value}" for name, value in machine.items() if value != "")


@lru_cache(maxsize=1)
def own_version() -> str:
    try:
        return version("draftscope")
    except PackageNotFoundError:
        return "0+source"


@lru_cache(maxsize=1)
def revision() -> str:
    """The git revision of this code; empty if it is not a checkout."""
    try:
        git = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return git.stdout.strip() if git.returncode == 0 else ""
