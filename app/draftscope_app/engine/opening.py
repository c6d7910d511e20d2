"""Which models a server opens on if it was told none."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from draftscope.base.errors import DraftscopeError
from draftscope.base.load_settings import LoadSettings

if TYPE_CHECKING:
    from draftscope.decode.lab import Lab

OPENS_ON: str | None = None  # a name in the table of known models, such as "smollm2"; None: the embedded pair


def opened(load: LoadSettings) -> tuple[Lab, str]:
    """The models that were named, or those that a server opens on; and a sentence if these could not be had.

    Raises DraftscopeError if the models that were named cannot be loaded.
    """
    import draftscope

    if OPENS_ON is None or load.target is not None or load.draft is not None or load.heads:
        return draftscope.load(**asdict(load)), ""
    try:
        return draftscope.load(**asdict(replace(load, target=OPENS_ON))), ""
    except DraftscopeError as error:
        return draftscope.load(**asdict(load)), f"{error} The embedded pair is loaded instead."


def loading(load: LoadSettings) -> str:
    """What is said while these models are loaded."""
    from pathlib import Path

    from draftscope.models.loading.sources import is_here

    target = load.target or OPENS_ON
    if target is None:
        return "The engine loads the embedded pair."
    name = Path(target).name
    if is_here(target):
        return f"The engine loads {name}."
    return f"The engine downloads {name}, which is not on this machine yet, and loads it."
