"""The weight files of a checkpoint before they are read: what they hold, or in one sentence why they cannot be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten

from safetensors import SafetensorError

from draftscope.base.errors import DraftscopeError
from draftscope.models.files import contents, hub, memory_needed
from draftscope.models.loading import adapters

CONFIG = "config.json"
PICKLES = (".bin", ".pt", ".pth")


@dataclass(frozen=True)
class Files:
    """A checkpoint's files before it is loaded: values by stored dtype, and whether they come from the hub."""

    stored: Counter[str]
    online: bool
    beside: str


def look(source: str, revision: str | None, allow_pickle: bool) -> Files:
    """What a folder or hub id holds, before weights are downloaded or read. DraftscopeError for what cannot be read."""
    folder = Path(source)
    if folder.is_dir():
        if revision is not None:
            raise DraftscopeError(f"revision = '{revision}': '{source}' is a folder without revisions; leave it out.")
        return _in_folder(folder, allow_pickle)
    if folder.is_absolute() or source.startswith((".", "~")):
        raise DraftscopeError(f"There is no model folder '{source}'; check the path.")
    listing = hub.listing(source, revision)
    if listing is not None:
        return _on_hub(source, revision, listing, allow_pickle)
    cached = hub.cached(source, revision)
    if cached is None:
        raise DraftscopeError(
            f"'{source}' is not a folder and not in the hub's cache, and huggingface.co does not answer; check the "
            "spelling or the network."
        )
    return _in_folder(cached, allow_pickle)


def _on_hub(source: str, revision: str | None, listing: hub.Listing, allow_pickle: bool) -> Files:
    adapter = hub.file(source, adapters.ADAPTER, revision, True) if adapters.ADAPTER in listing.files else None
    adapters.refuse_alone(source, listing.files, adapter)
    if not allow_pickle:
        if not any(file.endswith(".safetensors") for file in listing.files):
            raise DraftscopeError(_without_safetensors(source, listing.files))
        contents.refuse_names(source, listing.files)
    for index in hub.indices(source, revision, listing.files):
        contents.refuse_index(index, allow_pickle)
    return Files(listing.stored, True, adapters.beside(source, listing.files, adapter))


def _in_folder(folder: Path, allow_pickle: bool) -> Files:
    contents.refuse_folder(folder, allow_pickle)
    names, adapter = [path.name for path in folder.iterdir()], folder / adapters.ADAPTER
    adapters.refuse_alone(str(folder), names, adapter)
    return Files(_stored_in(folder, allow_pickle), False, adapters.beside(str(folder), names, adapter))


def _stored_in(folder: Path, allow_pickle: bool) -> Counter[str]:
    """The number of values by stored dtype in a folder; empty for pickles, if they are allowed."""
    if not (folder / CONFIG).is_file():
        raise DraftscopeError(f"'{folder}' has no config.json; name a folder written by save_pretrained.")
    names = sorted(path.name for path in folder.iterdir())
    weights = sorted(folder.glob("model*.safetensors")) or sorted(folder.glob("*.safetensors"))
    if not weights:
        if allow_pickle and any(name.endswith(PICKLES) for name in names):
            return Counter()
        raise DraftscopeError(_without_safetensors(str(folder), names))
    if not allow_pickle:
        contents.refuse_names(str(folder), names)
    contents.refuse_missing(folder)
    try:
        return memory_needed.stored_in(weights)
    except (OSError, SafetensorError) as error:
        reason = shorten(str(error), 160, placeholder=" ...").rstrip(".")
        raise DraftscopeError(
            f"The weights in '{folder}' are damaged ({reason}); download or write them again."
        ) from None


def _without_safetensors(source: str, names: Collection[str]) -> str:
    if pickles := sorted((name for name in names if name.endswith(PICKLES)), key=lambda name: Path(name).suffix):
        return (
            f"'{source}' has no safetensors: '{pickles[0]}' would be read from a pickle, which can run code; convert "
            "it to safetensors, or use --allow-pickle if you trust it."
        )
    if files := [name for name in names if name.endswith(".gguf")]:
        return f"'{source}' has no safetensors, but GGUF files; name one of them as a file, for example '{files[0]}'."
    return f"'{source}' has no *.safetensors weights; download or write them again."
