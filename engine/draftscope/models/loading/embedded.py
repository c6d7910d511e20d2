"""The embedded family: which drafters and targets this project trains itself, and which of them are here.

One table, in the order in which they are trained. It imports neither torch nor the training code.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError

RECORD = "training.json"  # in every folder: what made the weights beside it
EDGE = 16 * 2**20  # bytes of a weight file's beginning and end that its digest covers


@dataclass(frozen=True)
class Member:
    """`kind` says how its folder is loaded: `target`, `experts`, `draft` and `mamba2` are transformers models, every
    other kind is one that `heads.load_head` knows. `of` is the target it drafts for; empty for a target."""

    name: str
    kind: str
    of: str
    title: str

    @property
    def folder(self) -> str:
        """Its folder's name inside `assets/models`."""
        return self.title.lower()

    @property
    def is_head(self) -> bool:
        return self.kind in ("eagle3", "medusa", "block", "mtp", "eagle")


FAMILY = (
    Member("target", "target", "", "Llama-Draftscope-15M"),
    Member("draft", "draft", "target", "Llama-Draftscope-Draft-1M"),
    Member("eagle3", "eagle3", "target", "Llama-Draftscope-Eagle3"),
    Member("medusa", "medusa", "target", "Llama-Draftscope-Medusa"),
    Member("block", "block", "target", "Llama-Draftscope-Block"),
    Member("mtp", "mtp", "target", "Llama-Draftscope-MTP"),
    Member("mamba2", "mamba2", "target", "Llama-Draftscope-Mamba2"),
    Member("draft-2l", "draft", "target", "Llama-Draftscope-Draft-2L"),
    Member("draft-tiny", "draft", "target", "Llama-Draftscope-Draft-Tiny"),
    Member("draft-hopeless", "draft", "target", "Llama-Draftscope-Draft-Hopeless"),
    Member("eagle", "eagle", "target", "Llama-Draftscope-Eagle1"),
    Member("experts", "experts", "", "Llama-Draftscope-Experts"),
    Member("experts-draft", "draft", "experts", "Llama-Draftscope-Experts-Draft"),
)


def find(name: str) -> Member:
    """The member of that name, or one sentence with all names."""
    for member in FAMILY:
        if member.name == name:
            return member
    raise DraftscopeError(f"There is no member '{name}' of the family; known are {', '.join(m.name for m in FAMILY)}.")


def home(name: str) -> Path:
    """Where the embedded member of that name lies, or would."""
    return assets() / "models" / find(name).folder


def place(name: str) -> Path | None:
    """The embedded folder of the member of that name; None where it was not trained yet."""
    folder = home(name)
    return folder if (folder / "config.json").is_file() else None


def resolved(source: str | Path) -> str | Path:
    """The folder of the embedded member that `source` names, where no folder of that name lies here; else `source`."""
    named = any(member.name == source for member in FAMILY) and not Path(source).exists()
    return (place(str(source)) or source) if named else source


def heads_for(target: Path) -> list[str]:
    """Every embedded head that was trained for the model in `target`, as `load` takes heads: 'kind:folder'."""
    made_for = digest(target)
    folders = {member.kind: place(member.name) for member in FAMILY if member.is_head}
    return [f"{kind}:{folder}" for kind, folder in folders.items() if folder and trained_for(folder) == made_for]


def trained_for(folder: Path) -> str:
    """The digest of the target that a member's folder was trained for; empty where its record does not say."""
    path = folder / RECORD
    return str(json.loads(path.read_text(encoding="utf-8")).get("target", "")) if path.is_file() else ""


def digest(folder: Path) -> str:
    """What `Model.digest` is for the model in `folder`: SHA-256 over each weight file's size, beginning and end."""
    found = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        size = path.stat().st_size
        found.update(str(size).encode())
        with path.open("rb") as file:
            found.update(file.read(EDGE))
            file.seek(max(0, size - EDGE))
            found.update(file.read(EDGE))
    return found.hexdigest()[:12]
