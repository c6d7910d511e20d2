"""A peer that cannot run here."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class MissingPeerError(Exception):
    """Names the peer, says why and what would help, in a sentence."""


def needed(module: str, peer: str, command: str) -> Any:
    """The module of a peer's package, or `MissingPeerError` with the command that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise MissingPeerError(f"{peer} was left out: '{module}' is not installed; {command}.") from None
    except (ImportError, OSError, RuntimeError) as error:
        reason = str(error).split("\n")[0][:160].rstrip(".")
        raise MissingPeerError(
            f"{peer} was left out: '{module}' does not load ({reason}); mend or uninstall it."
        ) from None
