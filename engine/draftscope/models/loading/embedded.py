"""The embedded models: a table of the targets and drafters that this project trains, and where to find them.

Members are listed in training order. Imports neither torch nor the training code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from draftscope.base.assets import model_folder
from draftscope.base.errors import DraftscopeError

PAIR = "embedded"  # as a target: the pair that `load` takes without a name, with its heads
RECORD = "training.json"  # in every folder: how the weights beside it were trained
EDGE = 16 * 2**20  # bytes at the start and at the end of a weight file that its digest covers


@dataclass(frozen=True)
class Member:
    """An embedded model.

    `kind` determines how its folder is loaded: `target`, `experts`, `draft` and `mamba2` are transformers models, all
    others are kinds of `heads.load_head`. `of` is the target it drafts for; empty for a target.
    """

    name: str
    kind: str
    of: str
    title: str

    @property
    def folder(self) -> str:
        """The name of its folder in `assets/models`."""
        return self.title.lower()

    @property
    def is_head(self) -> bool:
        return self.kind not in WHOLE


WHOLE = ("target", "experts", "draft", "mamba2")  # the kinds of models that are no heads
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
    """The member with this name. Raises DraftscopeError with all names if there is none."""
    for member in FAMILY:
        if member.name == name:
            return member
    raise DraftscopeError(f"There is no embedded model '{name}'; choose from {', '.join(m.name for m in FAMILY)}.")


def home(name: str) -> Path:
    """The folder of the embedded model with this name, whether it exists or not."""
    return model_folder(find(name).folder)


def place(name: str) -> Path | None:
    """The folder of the embedded model with this name; None if it is not trained yet."""
    folder = home(name)
    return folder if (folder / "config.json").is_file() else None


def resolved(source: str | Path) -> str | Path:
    """The folder of the embedded model named `source`, unless there is a local folder of that name; else `source`."""
    if not any(member.name == source for member in FAMILY) or Path(source).exists():
        return source
    if (folder := place(str(source))) is None:
        raise DraftscopeError(
            f"The embedded model '{source}' is not installed: a wheel has only 'target', 'draft' and SmolLM2's head. "
            "The repository has all; DRAFTSCOPE_ASSETS names its folder 'assets'."
        )
    return folder


def is_pair(source: str | Path) -> bool:
    """Whether `source` is the pair's name, and no local folder."""
    return source == PAIR and not Path(source).exists()


def heads_for(target: Path) -> list[str]:
    """The embedded heads trained for the model in `target`, in the form that `load` accepts: 'kind:folder'."""
    target_digest = digest(target)
    folders = {member.kind: place(member.name) for member in FAMILY if member.is_head}
    return [f"{kind}:{folder}" for kind, folder in folders.items() if folder and trained_for(folder) == target_digest]


def trained_for(folder: Path) -> str:
    """The digest of the target that the model in `folder` was trained for; empty if not recorded."""
    path = folder / RECORD
    return str(json.loads(path.read_text(encoding="utf-8")).get("target", "")) if path.is_file() else ""


def digest(folder: Path) -> str:
    """`Model.digest` of the model in `folder`."""
    return digest_of(sorted(folder.glob("*.safetensors")))


def digest_of(files: Iterable[Path]) -> str:
    """SHA-256 over the size, start and end of each weight file."""
    sha = hashlib.sha256()
    for path in files:
        size = path.stat().st_size
        sha.update(str(size).encode())
        with path.open("rb") as file:
            sha.update(file.read(EDGE))
            file.seek(max(0, size - EDGE))
            sha.update(file.read(EDGE))
    return sha.hexdigest()[:12]
