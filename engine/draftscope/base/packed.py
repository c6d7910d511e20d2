"""The folders of the embedded models. A wheel holds their weights packed, which saves a sixth of it; they are unpacked
once into the user's cache."""

from __future__ import annotations

import lzma
import os
import shutil
from pathlib import Path
from tempfile import mkdtemp

from draftscope.base.assets import assets, cache_folder

WEIGHTS, PACKED = "model.safetensors", "model.safetensors.xz"


def model_folder(name: str) -> Path:
    """The folder of this name in `assets/models`, with its weights unpacked; it may not exist."""
    folder = assets() / "models" / name
    packed = folder / PACKED
    if not packed.is_file():
        return folder
    place = cache_folder() / "embedded" / f"{name}-{packed.stat().st_size}"
    if not place.is_dir():
        _unpack(folder, place)
    return place


def _unpack(folder: Path, place: Path) -> None:
    """Several processes may do so at once: the first one to finish stays."""
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(mkdtemp(dir=place.parent, prefix=".unpacking-"))
    for path in folder.iterdir():
        if path.name != PACKED:
            shutil.copy(path, fresh / path.name)
    with lzma.open(folder / PACKED) as source, (fresh / WEIGHTS).open("wb") as weights:
        shutil.copyfileobj(source, weights)
    try:
        os.replace(fresh, place)
    except OSError:  # it is there
        shutil.rmtree(fresh)
