"""Which GGUF file is meant: one in several parts, as 'llama-gguf-split' names them, or the only one in a folder."""

from __future__ import annotations

import re
from pathlib import Path

from draftscope.base.errors import DraftscopeError

PART = re.compile(r"(?P<stem>.*)-(?P<part>\d{5})-of-(?P<parts>\d{5})(?P<suffix>\.gguf)", re.IGNORECASE)
PROJECTOR = "mmproj"  # in the names of files that read images or sound for a language model
MAX_PARTS = 1000
SHOWN = 12  # files in a sentence


def name_of(path: Path) -> str:
    """The name of a file's model, without the number of a part."""
    match = PART.fullmatch(path.name)
    return match["stem"] if match else path.stem


def parts_of(path: Path) -> list[Path]:
    """All parts of a file, by the name of its first one. Raises DraftscopeError for another part, or if one is
    missing."""
    match = PART.fullmatch(path.name)
    if match is None or not path.exists():
        return [path]
    part, count = int(match["part"]), int(match["parts"])
    names = [_part(match, number) for number in range(1, min(count, MAX_PARTS) + 1)]
    if part != 1:
        raise DraftscopeError(f"'{path}' is part {part} of {count}; name the first part, '{_part(match, 1)}'.")
    missing = [name for name in names if not (path.parent / name).is_file()]
    if missing:
        raise DraftscopeError(
            f"'{path}' is one of {count} parts, and '{missing[0]}' is not beside it; put all parts in one folder."
        )
    return [path.parent / name for name in names]


def _part(match: re.Match[str], number: int) -> str:
    return f"{match['stem']}-{number:05}-of-{match['parts']}{match['suffix']}"


def file_in(folder: Path) -> Path | None:
    """The GGUF file of a folder that holds one model as such a file, and no weights of another form; None if it holds
    none. Raises DraftscopeError if there are several."""
    files = sorted(path for path in folder.iterdir() if _is_whole(path))
    if not files or any(folder.glob("*.safetensors")) or any(folder.glob("pytorch_model*.bin")):
        return None
    models = [path for path in files if PROJECTOR not in path.name.lower()]
    if len(models) > 1:
        rest = f" and {len(models) - SHOWN} more" if len(models) > SHOWN else ""
        names = ", ".join(f"'{path.name}'" for path in models[:SHOWN])
        raise DraftscopeError(f"'{folder}' holds {len(models)} models, {names}{rest}; name one of these files.")
    if not models:
        raise DraftscopeError(
            f"'{folder}' holds only the part of a model that reads images or sound, '{files[0].name}'; name the file "
            "of its language model."
        )
    return models[0]


def _is_whole(path: Path) -> bool:
    """Whether this is a GGUF file or the first part of one, by its name."""
    match = PART.fullmatch(path.name)
    first = match is None or int(match["part"]) == 1
    return path.suffix.lower() == ".gguf" and not path.name.startswith(".") and path.is_file() and first
