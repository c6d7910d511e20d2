"""The folder of the assets (embedded models, recorded traces, prompts, the instrument's scripts and styles), and the
user's cache folder (measured costs, converted models, unpacked weights)."""

from __future__ import annotations

import lzma
import os
import shutil
from pathlib import Path
from tempfile import mkdtemp

WEIGHTS, PACKED = "model.safetensors", "model.safetensors.xz"


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


def model_folder(name: str) -> Path:
    """The folder of this name in `assets/models`; it may not exist. A wheel holds weights packed, which saves a
    sixth of it; they are unpacked once into the user's cache."""
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
