"""Which drafters of other packages a check has passed, on which targets; kept in the user's cache folder.

It depends on the source of the drafter: after a change it is unchecked again.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from draftscope.base.assets import cache_folder
from draftscope.drafters.drafter import DrafterInfo

_here: set[tuple[Any, str]] = set()  # `create` and target: of drafters without a source file, for this process only


def is_unchecked(info: DrafterInfo, target: str) -> bool:
    """Does nothing but its own word say that this drafter is exact? `target` is the digest of a target's weights."""
    if not info.source:
        return False
    key = _key(info, target)
    return (info.create, target) not in _here and (key is None or key not in _passed())


def keep_passed(info: DrafterInfo, target: str) -> None:
    """Remembers that every test of a check passed."""
    _here.add((info.create, target))
    key = _key(info, target)
    if key is None or not info.source:
        return
    with suppress(OSError):  # a folder that cannot be written only means to check again
        _file().parent.mkdir(parents=True, exist_ok=True)
        _file().write_text(json.dumps(sorted({*_passed(), key})), encoding="utf-8")


def _file() -> Path:
    return cache_folder() / "checked.json"


def _passed() -> set[str]:
    try:
        return set(json.loads(_file().read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return set()


def _key(info: DrafterInfo, target: str) -> str | None:
    """A hash of the drafter's name, its source file and the target; None without a file, as in a notebook."""
    try:
        source = Path(inspect.getfile(inspect.unwrap(info.create))).read_bytes()
    except (TypeError, OSError):
        return None
    return hashlib.sha256(source + f"|{info.name}|{target}".encode()).hexdigest()[:16]
