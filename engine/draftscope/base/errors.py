"""The error for mistakes a user can fix: the command line prints its message and exits. And files that a user names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from draftscope.base.printable import printable

MAX_QUOTED = 80  # characters of what somebody wrote that a message repeats
MAX_READ = 64 << 20  # bytes of a file that is read whole
MAX_NAMED = 200  # of a path or another name, whoever wrote the message
NO_MEMORY = ("allocate memory", "out of memory", "not enough memory", "bad_alloc")  # in the errors of torch
LONG = re.compile(rf"'[^'\n]{{{MAX_NAMED + 1},}}'|[^\s']{{{MAX_NAMED + 1},}}")  # in quotation marks, or one word


class DraftscopeError(Exception):
    """Something the user can fix; the message names the value and the remedy. Long names in it are cut."""

    def __init__(self, message: object = "") -> None:
        super().__init__(cut(str(message)))


class DisturbedError(DraftscopeError):
    """Other work on this machine disturbed what was measured; asked again later, it may succeed."""


class PluginWarning(UserWarning):
    """A drafter of another package was left out, and why."""


class GenerationWarning(UserWarning):
    """The target's generation_config states what no run here applies: transformers' `generate` writes other texts."""


class UnreadWarning(UserWarning):
    """A setting that no drafter of the call reads."""


def cut(message: str) -> str:
    """A message as people can read it: no name in it is longer than `MAX_NAMED` characters, and it can be printed."""
    return printable(LONG.sub(_shortened, message), keep="\n")


def _shortened(match: re.Match[str]) -> str:
    """The beginning and the end of a name: the end of a path says more than its middle."""
    name, half = match[0], MAX_NAMED // 2
    return f"{name[:half]}...{name[-half:]}"


def quoted(value: object, most: int = MAX_QUOTED) -> str:
    """The value as a message repeats it: cut, and on one line without characters that no terminal or file can take."""
    text = value if isinstance(value, str) else repr(value)
    return printable(text if len(text) <= most else text[:most] + "...")


def read_bytes(path: Path, what: str = "The file") -> bytes:
    """The content of a file that is called `what`, or a `DraftscopeError`, also for one of more than `MAX_READ`."""
    with one_sentence(f"{what} '{path}' cannot be read", "check the path"), path.open("rb") as file:
        content = file.read(MAX_READ + 1)
    if len(content) > MAX_READ:
        raise DraftscopeError(
            f"{what} '{path}' has more than {MAX_READ >> 20} MiB, the most that is read; give another."
        )
    return content


def reason(error: Exception) -> str:
    """Why something went wrong, as part of a sentence: of what the operating system says without number and path, of
    bytes that are no text without a codec's words."""
    if isinstance(error, UnicodeDecodeError):
        return "it holds no text"
    return quoted((getattr(error, "strerror", None) or str(error)).lower())


def write_text(path: str | Path, text: str) -> None:
    """Writes a file, or raises `DraftscopeError`."""
    with one_sentence(f"'{path}' cannot be written", "choose another file"):
        Path(path).write_text(text, encoding="utf-8")


def memory_ran_out(error: BaseException) -> bool:
    """Whether there was not enough memory. What torch raises on a processor is a RuntimeError like any other."""
    words = str(error) if isinstance(error, RuntimeError | OSError) else ""
    return isinstance(error, MemoryError) or any(said in words for said in NO_MEMORY)


@contextmanager
def one_sentence(what: str, remedy: str) -> Iterator[None]:
    """Turns what the operating system refuses into one sentence."""
    try:
        yield
    except OSError as error:
        raise DraftscopeError(f"{what} ({reason(error)}); {remedy}.") from None
