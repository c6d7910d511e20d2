"""What a model's folder may contain: files that can be read to their end, and an index that stays inside it."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from draftscope.base.errors import DraftscopeError, quoted

INDEX = ".index.json"  # of weights in several files: tensor -> file
SAFE, PICKLED = (".safetensors",), (".safetensors", ".bin", ".pt", ".pth")


def refuse_folder(folder: Path, allow_pickle: bool = False) -> None:
    """Raises `DraftscopeError` for a folder with a pipe or a device in it, which might be read without end, or with an
    index that names something other than a weight file in the folder: transformers would load it."""
    for path in sorted(folder.iterdir()):
        try:
            mode = path.stat().st_mode
        except OSError:  # a link to nothing: whoever needs it will say so
            continue
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise DraftscopeError(
                f"'{quoted(path.name)}' in '{folder}' is a pipe or a device, not a file; replace it by a file."
            )
        if path.name.endswith(INDEX):
            refuse_index(path, allow_pickle)


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
