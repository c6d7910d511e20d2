"""The compiled programs of this checkout, lent to a copy of its engine: each copy would compile for a minute."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from draftscope.models import beforehand
from draftscope.models.native import available

ENGINE = Path(available.__file__).parents[2]


def lend_programs(engine: Path) -> None:
    """`engine` is a copy of `engine/draftscope`. numba takes what it kept for a file of the same time and size."""
    if available.why_not():
        return
    copies = []
    for source in beforehand.COMPILED:
        copies.append(copy := engine / source.relative_to(ENGINE))
        assert copy.read_bytes() == source.read_bytes()
        shutil.copystat(source, copy)
        (copy.parent / "__pycache__").mkdir(exist_ok=True)
        for kept in (source.parent / "__pycache__").glob(f"{source.stem}.*.nb?"):
            shutil.copy2(kept, copy.parent / "__pycache__")
    with pytest.MonkeyPatch.context() as patch:  # it is said that they are there, as beside our own
        patch.setattr(beforehand, "ROOM", engine / beforehand.ROOM.relative_to(ENGINE))
        patch.setattr(beforehand, "COMPILED", tuple(copies))
        beforehand._marker.__wrapped__().touch()
