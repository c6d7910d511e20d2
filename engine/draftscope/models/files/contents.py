"""What a model's folder may contain: files that can be read to their end, of a bounded size, and an index that stays
inside it."""

from __future__ import annotations

import json
import math
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from draftscope.base.errors import DraftscopeError, quoted

INDEX = ".index.json"  # of weights in several files: tensor -> file
WEIGHTS = "model.safetensors"  # the file that is read, or else those that its index names
SHARD = re.compile(r"-\d+-of-\d+\.safetensors$")
MIB = 2**20
MAX_BYTES = 16 * MIB  # of a file that is read whole: real configurations have kilobytes
MAX_LARGE = 64 * MIB  # of an index or a vocabulary: the largest real ones have about 35 MB
LARGE = ("tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt", INDEX)  # how their names end
WHOLE = (".json", ".model", ".txt", ".jinja", ".tiktoken")  # suffixes of files that are read whole
MAX_MODULES = 2048  # layers or experts in a layer: the largest real ones have about 130 and 512
ENDLESS = ("time_step_limit",)  # of Mamba-2: a range that may have no end
COUNTED = re.compile(r"layers$|n_layer$|experts$")  # keys of such numbers
SAFE, PICKLED = (".safetensors",), (".safetensors", ".bin", ".pt", ".pth")


def refuse_folder(folder: Path, allow_pickle: bool = False) -> None:
    """Raises `DraftscopeError` for a folder with a pipe or a device in it, which might be read without end, with a file
    that is too large to be read whole, or with an index that names something other than a weight file in the folder:
    transformers would load it."""
    for path in sorted(folder.iterdir()):
        try:
            mode = path.stat().st_mode
        except OSError:  # a link to nothing: whoever needs it will say so
            continue
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise DraftscopeError(
                f"'{quoted(path.name)}' in '{folder}' is a pipe or a device, not a file; replace it by a file."
            )
        refuse_size(path)
        if path.name.endswith(INDEX):
            refuse_index(path, allow_pickle)


def refuse_names(source: str, names: Iterable[str]) -> None:
    """Raises `DraftscopeError` if a checkpoint's files `names` hold safetensors, but none that would be read."""
    files = {name for name in names if "/" not in name}
    weights = sorted(name for name in files if name.endswith(SAFE))
    if not weights or not files.isdisjoint((WEIGHTS, WEIGHTS + INDEX)):
        return
    if SHARD.search(weights[0]):
        raise DraftscopeError(
            f"'{source}' has its weights in {len(weights)} files, but no '{WEIGHTS}{INDEX}' that says which file holds "
            "which; download or write that too."
        )
    raise DraftscopeError(
        f"'{source}' has '{quoted(weights[0])}', and weights are read from '{WEIGHTS}' or the files that its index "
        "names; name a folder written by save_pretrained."
    )


def refuse_missing(folder: Path) -> None:
    """Raises `DraftscopeError` if the index of a folder's weights names a file that is not there."""
    index = folder / (WEIGHTS + INDEX)
    if (folder / WEIGHTS).exists() or not index.is_file():
        return
    refuse_index(index)
    files = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
    if missing := [name for name in files if not (folder / name).is_file()]:
        raise DraftscopeError(
            f"'{folder}' lacks {len(missing)} of the {len(files)} files of its weights, for example '{missing[0]}'; "
            "download or copy it too."
        )


def refuse_size(path: Path, size: int | None = None) -> None:
    """Raises `DraftscopeError` for a file that is read whole and larger than any real one: JSON of nothing but brackets
    takes twenty times its size once it is parsed. `size` in bytes, where the file is not here yet."""
    size = path.stat().st_size if size is None else size
    most = MAX_LARGE if path.name.endswith(LARGE) else MAX_BYTES
    if path.suffix in WHOLE and size > most:
        raise DraftscopeError(
            f"'{path}' has {size / MIB:,.0f} MiB, and at most {most // MIB} MiB are read of such a file; download or "
            "write it again."
        )


def refuse_config(path: Path) -> None:
    """Raises `DraftscopeError` for a config.json of more layers or experts than any model has, since each becomes a
    module before any weight is looked at, or with a number that is none. A file that is no JSON is left to whoever
    reads it."""
    refuse_size(path)
    try:
        config = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return
    parts = [config, *config.values()] if isinstance(config, dict) else []
    for key, value in [item for part in parts if isinstance(part, dict) for item in part.items()]:
        if isinstance(value, int) and value > MAX_MODULES and COUNTED.search(key):
            raise DraftscopeError(
                f"'{path}' claims {value:,} in '{quoted(key)}', and at most {MAX_MODULES:,} are built; write it again."
            )
    for key, number in _numbers(config):
        if math.isnan(number) or (math.isinf(number) and key not in ENDLESS):
            raise DraftscopeError(
                f"'{path}' has {number} in '{quoted(key)}', with which nothing can be computed; download or write it "
                "again."
            )


def _numbers(config: Any) -> Iterator[tuple[str, float]]:
    """Every number that is not whole, with the name that it or its list has."""
    waiting = [("", config)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += [(key, entry) for entry in value]
        elif isinstance(value, float):
            yield key, value


def refuse_index(path: Path, allow_pickle: bool = False) -> None:
    """Raises `DraftscopeError` if an index is damaged or names a file elsewhere, or a pickle that is not allowed."""
    try:
        files = set(json.loads(path.read_bytes())["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DraftscopeError(f"'{path}' is no index of weights; download or write it again.") from None
    pickles = allow_pickle or not path.name.endswith(f".safetensors{INDEX}")  # others are read with allow_pickle only
    for name in sorted(map(str, files)):
        if name != Path(name).name or "\\" in name or not name.endswith(PICKLED if pickles else SAFE):
            raise DraftscopeError(
                f"'{path}' names '{quoted(name)}', which is no safetensors file in its folder; write the index again."
            )
