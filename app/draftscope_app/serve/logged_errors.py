"""Errors inside Gradio and uvicorn, as the log may hold them: their kind and place, never their message.

Gradio prints the traceback of any call that fails, and the message may quote all of what a visitor sent: a call with
too few inputs put 50 MB into the log in one line. It has no setting for it. And whoever repeats what fails would fill
the disk: the same error is written once a minute, with how often it came meanwhile.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Hashable

from draftscope_app.engine import log

AGAIN_S = 60.0  # until the same is written again
MAX_KINDS = 256  # that are remembered
LIBRARIES = ("uvicorn.error", "asyncio", "python_multipart.multipart")


class Repeats:
    """What was written lately, and how often it came since."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._written: dict[Hashable, float] = {}
        self._held_back: dict[Hashable, int] = {}

    def due(self, what: Hashable) -> int | None:
        """How often it was held back before; None if it is held back now."""
        now = self._clock()
        if now - self._written.get(what, -AGAIN_S) < AGAIN_S:
            self._held_back[what] = self._held_back.get(what, 0) + 1
            return None
        if len(self._written) >= MAX_KINDS:
            self._written.clear()
            self._held_back.clear()
        self._written[what] = now
        return self._held_back.pop(what, 0)


_REPEATS = Repeats()


def keep_texts_out() -> None:
    """From now on, in this process: for what Gradio prints by itself and for what uvicorn and asyncio log."""
    from gradio import queueing, route_utils, routes

    for module in (queueing, route_utils, routes):
        vars(module)["traceback"] = _Traceback
    for name in LIBRARIES:
        logging.getLogger(name).addFilter(_KINDS)


def write(error: BaseException | None) -> None:
    """One line for an error, if the same was not written a moment ago."""
    kind, places = type(error).__name__, log.places_of(error)
    repeated = _REPEATS.due((kind, *places))
    if repeated is not None:
        log.write("error", kind=kind, places=places, **({"repeated": repeated} if repeated else {}))


class _Traceback:
    """In place of the module `traceback`, of which Gradio uses one function."""

    @staticmethod
    def print_exc() -> None:
        write(sys.exc_info()[1])


class _Kinds(logging.Filter):
    """Records of errors become lines of this server's own log; others pass, the same one once a minute."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info:
            write(record.exc_info[1])
            return False
        return _REPEATS.due((record.name, record.msg)) is not None


_KINDS = _Kinds()
