"""Which version of this project runs: its release, and the git revision where it runs from a checkout."""

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
    """The git revision of this code, empty where it is not a checkout."""
    try:
        asked = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""
