"""A program that cannot run here."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class MissingPeerError(Exception):
    """One sentence: the program, why it cannot run, and what to do about it."""


def needed(module: str, peer: str, command: str) -> Any:
    """A module of a program's package. Raises `MissingPeerError` with the command that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise MissingPeerError(f"{peer} was skipped: '{module}' is not installed; {command}.") from None
    except (ImportError, OSError, RuntimeError) as error:
        reason = str(error).split("\n")[0][:160].rstrip(".")
        raise MissingPeerError(
            f"{peer} was skipped: '{module}' does not load ({reason}); repair or uninstall it."
        ) from None
