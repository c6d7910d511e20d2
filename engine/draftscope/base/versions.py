"""The version of this project that is running: its release, and in a checkout its git revision."""

from __future__ import annotations

import subprocess
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


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
