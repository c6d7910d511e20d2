"""Python looks through all that it holds for garbage while it grows: a seventh of the engine's import."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collecting() -> Iterator[None]:
    """No look for garbage inside. Afterwards it is on or off as before, and what is there counts as looked through."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            if not gc.get_freeze_count():
                gc.freeze()  # puts aside all that is there
                gc.unfreeze()  # and then with the oldest, without a look
            gc.enable()
