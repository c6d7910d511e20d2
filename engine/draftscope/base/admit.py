"""Which texts are taken, from people and from programs: this is the only place that says so."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from draftscope.base.errors import DraftscopeError

EMPTY = "The prompt is empty; write at least a word to continue from."
_HALF = re.compile("[\ud800-\udfff]")  # of a UTF-16 pair: JSON and a command line can hold one alone


def admit(values: Mapping[str, Any], most: int | None = None) -> None:
    """Takes texts by their names, and lists of texts. What is neither is for others to refuse.

    Raises `DraftscopeError` for an empty 'prompt', for more than `most` characters of one name, and for half a
    character.
    """
    if values.get("prompt") == "":
        raise DraftscopeError(EMPTY)
    for name, value in values.items():
        length = sum(len(part) if isinstance(part, str) else 1 for part in _parts(value))
        if most is not None and length > most:
            raise DraftscopeError(f"{name} is {length:,} characters long; this takes at most {most:,}, so shorten it.")
        for half in (half for part in _parts(value) if isinstance(part, str) for half in _HALF.findall(part)):
            raise DraftscopeError(
                f"{name} contains \\u{ord(half):04x}, which is half of a character; remove it, or write the text as "
                "UTF-8."
            )


def _parts(value: Any) -> Iterator[Any]:
    """A text, or what a list holds; nothing of anything else."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        yield from value
