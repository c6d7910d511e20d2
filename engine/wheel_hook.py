"""Hatchling calls this for a wheel: it puts in the models to begin with, their weights packed (`base/assets.py`).

An editable install reads them where they lie: to pack them takes seconds, and they change.
"""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODELS = ("llama-draftscope-15m", "llama-draftscope-draft-1m", "llama-smollm2-135m-eagle3")
WEIGHTS = "model.safetensors"
# Two bytes a weight, of which only the one with the exponent is like others: no match is long. To look for long ones
# takes eight times as long, and makes the file no smaller.
MATCHES = {"mf": lzma.MF_BT2, "nice_len": 8, "depth": 1}
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 6, "lp": 1, "pb": 1, **MATCHES}]


class PackedModels(BuildHookInterface):  # type: ignore[misc] # mypy does not see hatchling
    """Packs into `build/wheel`, anew where the weights are newer."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        root = Path(self.root)
        for name in MODELS:
            folder, packed = root / "assets/models" / name, root / "build/wheel" / name / f"{WEIGHTS}.xz"
            if not packed.is_file() or packed.stat().st_mtime < (folder / WEIGHTS).stat().st_mtime:
                packed.parent.mkdir(parents=True, exist_ok=True)
                packed.write_bytes(lzma.compress((folder / WEIGHTS).read_bytes(), lzma.FORMAT_XZ, filters=FILTERS))
            for path in (packed, *(path for path in folder.iterdir() if path.name != WEIGHTS)):
                build_data["force_include"][str(path)] = f"draftscope/assets/models/{name}/{path.name}"
