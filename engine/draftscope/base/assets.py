"""Where the assets lie: embedded models, recorded traces, prompts, and the instrument's script and style."""

from __future__ import annotations

import os
from pathlib import Path


def assets() -> Path:
    """`DRAFTSCOPE_ASSETS` if set, else the folder inside an installed package, else the checkout's."""
    named = os.environ.get("DRAFTSCOPE_ASSETS")
    if named:
        return Path(named)
    package = Path(__file__).resolve().parents[1]
    installed = package / "assets"
    return installed if installed.is_dir() else package.parents[1] / "assets"
