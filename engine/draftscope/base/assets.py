"""The folder of the assets (embedded models, recorded traces, prompts, the instrument's scripts and styles), and the
user's cache folder (measured costs, converted models)."""

from __future__ import annotations

import os
from pathlib import Path


def assets() -> Path:
    """`$DRAFTSCOPE_ASSETS` if set, else the folder inside the installed package, else the one in the checkout."""
    named = os.environ.get("DRAFTSCOPE_ASSETS")
    if named:
        return Path(named)
    package = Path(__file__).resolve().parents[1]
    installed = package / "assets"
    return installed if installed.is_dir() else package.parents[1] / "assets"


def cache_folder() -> Path:
    """`draftscope` in $DRAFTSCOPE_CACHE, else in the user's cache folder; it may not exist yet."""
    base = os.environ.get("DRAFTSCOPE_CACHE") or Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return Path(base) / "draftscope"
