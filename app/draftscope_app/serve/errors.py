"""Errors inside Gradio and uvicorn, as the log may hold them: their kind and place, never their message.

Gradio prints the traceback of any call that fails, and the message may quote all of what a visitor sent: a call with
too few inputs put 50 MB into the log in one line. It has no setting for it.
"""

from __future__ import annotations

import logging
import sys

from draftscope_app.engine import log


def keep_texts_out() -> None:
    """From now on, in this process: for what Gradio prints by itself and for what uvicorn and asyncio log."""
    from gradio import queueing, route_utils, routes

    for module in (queueing, route_utils, routes):
        vars(module)["traceback"] = _Traceback
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(_KINDS)


def write(error: BaseException | None) -> None:
    """One line for an error."""
    log.write("error", kind=type(error).__name__, places=log.places_of(error))


class _Traceback:
    """In place of the module `traceback`, of which Gradio uses one function."""

    @staticmethod
    def print_exc() -> None:
        write(sys.exc_info()[1])


class _Kinds(logging.Filter):
    """Records of errors become lines of this server's own log; others pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info:
            write(record.exc_info[1])
        return not record.exc_info


_KINDS = _Kinds()
