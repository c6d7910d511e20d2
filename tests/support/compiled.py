"""The compiled programs of this checkout, lent to a copy of its engine: each copy would compile for half a minute."""

from __future__ import annotations

import shutil
from pathlib import Path

from draftscope.models.native import available


def lend_programs(engine: Path) -> None:
    """`engine` is a copy of `engine/draftscope`. numba takes what it kept for a file of the same time and size."""
    if available.why_not():
        return
    ours, copy = Path(available.__file__).parent, engine / "models/native"
    for source in ours.glob("*.py"):
        assert (copy / source.name).read_bytes() == source.read_bytes()
        shutil.copystat(source, copy / source.name)
    shutil.copytree(ours / "__pycache__", copy / "__pycache__", dirs_exist_ok=True)
