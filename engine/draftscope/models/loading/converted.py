"""GGUF files converted once to safetensors in the user's cache, by their content: a folder as `save_pretrained` writes.

A folder appears under its name only when it is complete. Two processes that convert the same file wait for each other.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

from draftscope.base.assets import cache_folder
from draftscope.base.errors import DraftscopeError
from draftscope.base.machine import own_version
from draftscope.models.files.contents import refuse_size
from draftscope.models.files.gguf_file import inspected, sha256
from draftscope.models.files.gguf_network import network_of
from draftscope.models.files.pretrained import quiet
from draftscope.models.files.tokenizer_file import tokenizer_of

RECORD = "converted.json"  # in every folder: what it was converted from
DIGITS = 16  # of a file's SHA-256 in the name of its folder
CONVERSION = 1  # raised when files are converted in another way, so that none converted before is used
SPARE = 2**28  # bytes on the disk beside the weights


def converted(path: Path, progress: bool = False) -> Path:
    """The folder of a GGUF file. Raises DraftscopeError for a file that cannot be converted."""
    return converted_once(sha256(path), lambda: path, progress)


def converted_once(digest: str, file: Callable[[], Path], progress: bool = False) -> Path:
    """The folder of the GGUF file with this SHA-256; `file` is called only if it has to be converted."""
    home = home_of(digest)
    if home.is_dir():
        return home
    with locked(home):
        if not home.is_dir():
            _convert(file(), home, progress)
    return home


def home_of(digest: str) -> Path:
    """The folder of the GGUF file with this SHA-256, whether it exists or not."""
    return cache_folder() / "models" / f"{digest[:DIGITS]}-{CONVERSION}"


def weights_of(folder: Path) -> str:
    """The weights of a model that was converted here, in words; empty for other folders."""
    return _recorded(folder, "weights")


def original(folder: Path) -> Path | None:
    """The GGUF file that a folder was converted from; None if it is no longer there, or another one."""
    path = Path(_recorded(folder, "file"))
    return path if path.is_file() and home_of(sha256(path)) == folder else None


def _recorded(folder: Path, key: str) -> str:
    path = folder / RECORD
    if not path.is_file():  # nor a pipe, which might be read without end
        return ""
    refuse_size(path)
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))[key])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return ""


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """No other process works on this folder. Raises DraftscopeError if its place cannot be written."""
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(home.with_suffix(".lock")):
            yield
    except OSError as error:
        raise DraftscopeError(
            f"'{home.parent}' cannot be written ({error.strerror or error}); set DRAFTSCOPE_CACHE to another folder."
        ) from None


def _convert(path: Path, home: Path, progress: bool) -> None:
    file = inspected(path)
    part = home.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    _refuse_full(part, file.stored.total() * 4 + SPARE)
    tokenizer, network = tokenizer_of(file), network_of(file, progress)
    with quiet(progress):
        tokenizer.save_pretrained(part)
        network.save_pretrained(part)
    about = {"weights": file.weights, "architecture": file.architecture, "file": str(path.resolve())}
    record = about | {"draftscope": own_version()}
    (part / RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")
    part.rename(home)


def _refuse_full(place: Path, needed: int) -> None:
    free = shutil.disk_usage(place).free
    if free < needed:
        raise DraftscopeError(
            f"'{place.parent}' has {free / 1e9:.1f} GB free, and converting takes {needed / 1e9:.1f} GB; set "
            "DRAFTSCOPE_CACHE to a folder on another disk."
        )
