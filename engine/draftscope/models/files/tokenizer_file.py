"""A tokenizer's file is tried where it can end nothing but the process that tries it.

The library `tokenizers` ends a program, rather than raising an exception, at some damage (a table of normalised
characters that points beyond itself) and where a file makes of a text more than fits in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError
from draftscope.models.files import hub
from draftscope.models.files.bounded import BOUNDED, RefusedError
from draftscope.models.files.contents import refuse_size

NAME = "tokenizer.json"
SECONDS = 60.0  # for a text of 17,000 characters of many scripts; real tokenizers take less than six
PANIC = "PanicException"  # of Rust, which is no subclass of Exception and which no module exports


def refuse_tokenizer(source: str, revision: str | None, online: bool) -> None:
    """Raises `DraftscopeError` for a tokenizer.json, in a folder or on the hub, that cannot be used within bounds."""
    path = Path(source) / NAME if Path(source).is_dir() else hub.file(source, NAME, revision, online)
    if path is None or not path.is_file() or path.is_relative_to(assets()):
        return
    refuse_size(path)
    try:
        BOUNDED.ask("try_tokenizer", SECONDS, path=str(path.resolve()))
    except RefusedError as error:
        raise DraftscopeError(_sentence(source, error)) from None


@contextmanager
def without_panic(source: str) -> Iterator[None]:
    """Raises `DraftscopeError` where the library panics on a text that was not tried."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != PANIC:
            raise
        raise DraftscopeError(_sentence(source, error)) from None


def _sentence(source: str, error: BaseException) -> str:
    reason = " ".join(str(error).split())[:160].rstrip(".")
    return f"The tokenizer of '{source}' cannot be used ({reason}); download or write it again."
