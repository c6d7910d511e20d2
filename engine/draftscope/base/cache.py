"""The user's cache folder: measured costs, and models that were converted here."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """`draftscope` in $DRAFTSCOPE_CACHE, else in the user's cache folder; it may not exist yet."""
    base = os.environ.get("DRAFTSCOPE_CACHE") or Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return Path(base) / "draftscope"
