"""Reads the configuration and tensors of published heads from a folder or the hub, and writes them."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from huggingface_hub import snapshot_download
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from draftscope.base.errors import DraftscopeError, quoted, reason
from draftscope.models.files import hub
from draftscope.models.files.contents import refuse_config, refuse_folder
from draftscope.models.files.hub_bars import bars

WEIGHTS = ("medusa_lm_head", "model", "pytorch_model")  # prefixes of weight files; other files are training state
SUFFIXES = (".safetensors", ".bin", ".pt")  # in order of preference
ALL = ("vLLM", "SGLang", "llama.cpp", "here")  # who reads such files


@dataclass(frozen=True)
class Checkpoint:
    """The files of a published head."""

    source: str
    config: dict[str, Any]
    tensors: dict[str, Tensor]

    def wrong(self, what: str) -> DraftscopeError:
        """An error message that starts with this checkpoint's name."""
        return DraftscopeError(f"'{self.source}' {what}")

    def number(self, key: str, section: dict[str, Any] | None = None) -> int:
        """A positive integer from the configuration or a section of it."""
        value = (self.config if section is None else section).get(key)
        if not isinstance(value, int) or value < 1:
            raise self.wrong(f"has '{key}': {json.dumps(value)} in its config.json; a positive integer is needed.")
        return value

    def section(self, key: str) -> dict[str, Any]:
        """A nested part of the configuration."""
        value = self.config.get(key)
        if not isinstance(value, dict):
            raise self.wrong(f"has no section '{key}' in its config.json; choose another head.")
        return value

    def optional(self, key: str) -> dict[str, Any]:
        """A nested part of the configuration; empty if it is missing."""
        return self.section(key) if self.config.get(key) is not None else {}

    def indexes(self, key: str, section: dict[str, Any] | None = None) -> tuple[int, ...] | None:
        """A list of layer numbers; None if it is missing or empty."""
        value = (self.config if section is None else section).get(key)
        if not value:
            return None
        if not isinstance(value, list) or any(not isinstance(entry, int) for entry in value):
            raise self.wrong(f"has '{key}': {json.dumps(value)} in its config.json; a list of layer numbers is needed.")
        return tuple(value)


@dataclass(frozen=True)
class Defect:
    """`name` of a kind of defect, the sentence, the engines that serve it wrongly, and whether it drafts here all the
    same, so that how well can be measured."""

    name: str
    sentence: str
    served_wrongly: tuple[str, ...] = ALL
    drafts: bool = False


@dataclass(frozen=True)
class Published:
    """A head to publish; `weights` is the name of its weight file, without suffix."""

    config: dict[str, Any]
    tensors: dict[str, Tensor]
    weights: str = "model"


def read(source: str | Path) -> Checkpoint:
    """The head in a folder or on the hub. Prefers safetensors; of pickles only tensors are read (weights_only)."""
    folder = _folder(str(source))
    path = folder / "config.json"
    if not path.is_file():
        raise DraftscopeError(f"'{source}' has no config.json; name the folder or the hub id of a published head.")
    refuse_config(path)
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DraftscopeError(
            f"The config.json of '{source}' is not valid JSON ({reason(error)}); download or write it again."
        ) from None
    tensors: dict[str, Tensor] = {}
    for file in _weight_files(folder, str(source)):
        tensors |= _tensors(file)
    return Checkpoint(str(source), config, tensors)


def write(folder: Path, head: Published) -> None:
    """Writes a head's folder: config.json and one safetensors file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(head.config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in head.tensors.items()}
    save_file(plain, folder / f"{head.weights}.safetensors", metadata={"format": "pt"})


def _folder(source: str) -> Path:
    folder = Path(source)
    if folder.is_dir():
        refuse_folder(folder, allow_pickle=True)  # `_tensors` reads tensors from a pickle, and nothing else
        return folder
    if folder.is_absolute() or source.startswith((".", "~")):
        raise DraftscopeError(f"There is no folder '{source}' to load a head from; check the path.")
    listing = hub.listing(source, None)
    if listing is not None:
        return _fetched(source, listing.files)
    cached = hub.cached(source, None)
    if cached is None:
        raise DraftscopeError(
            f"'{source}' is not a folder and not in the hub's cache, and huggingface.co does not answer; check the "
            "spelling or the network."
        )
    return cached


def _fetched(source: str, files: tuple[str, ...]) -> Path:
    """Downloads only the files that are read: no pickles if there are safetensors."""
    suffix = next((s for s in SUFFIXES if any(f.startswith(WEIGHTS) and f.endswith(s) for f in files)), SUFFIXES[0])
    wanted = ["config.json", *(f"{name}*{suffix}" for name in WEIGHTS)]
    try:
        return Path(snapshot_download(source, allow_patterns=wanted, tqdm_class=bars(False, source)))
    except OSError as error:
        reason = str(error).strip().split("\n")[0]
        raise DraftscopeError(
            f"'{source}' could not be downloaded ({reason}); check the network and the disk."
        ) from None


def _weight_files(folder: Path, source: str) -> list[Path]:
    for suffix in SUFFIXES:
        if files := sorted(path for path in folder.glob(f"*{suffix}") if path.name.startswith(WEIGHTS)):
            return files
    raise DraftscopeError(
        f"'{source}' has no weights: no model*.safetensors, pytorch_model*.bin or medusa_lm_head file; download or "
        "write them again."
    )


def _tensors(file: Path) -> dict[str, Tensor]:
    try:
        if file.suffix == ".safetensors":
            return load_file(file)  # type: ignore[no-any-return]
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                _refuse_larger(file, sum(entry.file_size for entry in archive.infolist()), "unpacked")
        tensors = torch.load(file, map_location="cpu", weights_only=True)
    except (SafetensorError, OSError, EOFError, RuntimeError, ValueError, UnpicklingError, zipfile.BadZipFile):
        raise DraftscopeError(
            f"The weights in '{file}' are damaged or contain more than tensors; download them again or convert them to "
            "safetensors."
        ) from None
    if not isinstance(tensors, dict) or not all(isinstance(value, Tensor) for value in tensors.values()):
        raise DraftscopeError(f"'{file}' is not a dictionary of tensors; choose the folder of a published head.")
    for name, tensor in tensors.items():  # one number can be every entry of a tensor of any shape
        _refuse_larger(file, tensor.numel() * tensor.itemsize, f"in '{quoted(name)}'")
    return tensors


def _refuse_larger(file: Path, claimed: int, where: str) -> None:
    """torch writes weights as they are, so nothing in a file is larger than the file."""
    if claimed > (size := file.stat().st_size):
        raise DraftscopeError(
            f"'{file}' claims {claimed:,} bytes {where} and has {size:,}; download it again or convert it to "
            "safetensors."
        )
