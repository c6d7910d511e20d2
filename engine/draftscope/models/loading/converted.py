"""GGUF files converted once to safetensors in the user's cache, by their content: a folder as `save_pretrained` writes.

A folder appears under its name only when it is complete. Two processes that convert the same file wait for each other.
A file is refused before anything is written.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from filelock import FileLock
from huggingface_hub import split_torch_state_dict_into_shards
from safetensors.torch import save_file
from torch import Tensor
from tqdm import tqdm
from transformers import AutoModelForCausalLM, GenerationConfig

from draftscope.base.assets import cache_folder
from draftscope.base.errors import DraftscopeError
from draftscope.base.machine import own_version
from draftscope.base.usable_cores import usable_cores
from draftscope.models.files import memory_needed
from draftscope.models.files.contents import INDEX, refuse_size
from draftscope.models.files.gguf_file import GgufFile, inspected, sha256
from draftscope.models.files.gguf_header import damaged
from draftscope.models.files.gguf_tokenizer import tokenizer_of
from draftscope.models.files.pretrained import quiet
from draftscope.models.loading.gguf_config import config_of
from draftscope.models.loading.gguf_weights import FileWeight, refuse_other_shapes, stored_weights

RECORD = "converted.json"  # in every folder: what it was converted from
DIGITS = 16  # of a file's SHA-256 in the name of its folder
CONVERSION = 2  # raised when files are converted in another way, so that none converted before is used
PART = 2**29  # bytes of a file of weights
SPARE = 2**28  # bytes on the disk beside the weights


class Readable(NamedTuple):
    """A file that can be read exactly: its configuration, its tokenizer, and its weights by their parameters' names."""

    file: GgufFile
    config: Any
    tokenizer: Any
    weights: dict[str, FileWeight]


def converted(path: Path, progress: bool = False) -> Path:
    """The folder of a GGUF file. Raises DraftscopeError for a file that cannot be converted."""
    digest = sha256(path)
    if (home := home_of(digest)).is_dir():
        return home
    model = readable(path)  # refused before anything is written
    return converted_once(digest, lambda: model, progress)


def converted_once(digest: str, model: Callable[[], Readable], progress: bool = False) -> Path:
    """The folder of the GGUF file with this SHA-256; `model` is called only if it has to be converted."""
    home = home_of(digest)
    if home.is_dir():
        return home
    with locked(home):
        if not home.is_dir():
            _convert(model(), home, progress)
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


def readable(path: Path) -> Readable:
    """The model in a file. Raises DraftscopeError for a file that is damaged, or that would become another model."""
    file = inspected(path)
    config = config_of(file)
    weights = stored_weights(file, config)
    try:
        with torch.device("meta"), quiet():
            network = AutoModelForCausalLM.from_config(config)
    except Exception as error:  # of any kind: transformers trusts the values in a configuration
        raise damaged(path, str(error).split("\n")[0][:120].rstrip(".")) from None
    refuse_other_shapes(file, weights, network)
    config.architectures = [type(network).__name__]
    config.dtype = dtype = getattr(torch, file.dtype)
    size = file.stored.total() * dtype.itemsize
    memory_needed.refuse_weights(str(path), size, 0, [torch.device("cpu")], f"in {file.dtype}")
    return Readable(file, config, tokenizer_of(file), weights)


def _convert(model: Readable, home: Path, progress: bool) -> None:
    part = home.with_suffix(".part")
    _refuse_full(home.parent, model.file.stored.total() * model.config.dtype.itemsize + SPARE)
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    try:
        _write(model, part, progress)
        part.rename(home)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _write(model: Readable, folder: Path, progress: bool) -> None:
    file = model.file
    with quiet(progress):
        model.tokenizer.save_pretrained(folder)
        model.config.save_pretrained(folder)
        generation = GenerationConfig.from_model_config(model.config)
        generation.eos_token_id = list(file.ends) or None
        generation.save_pretrained(folder)
    _write_weights(model, folder, progress)
    about = {"weights": file.weights, "architecture": file.architecture, "file": str(file.path.resolve())}
    record = about | {"draftscope": own_version()}
    (folder / RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")


def _write_weights(model: Readable, folder: Path, progress: bool) -> None:
    """All weights in the configuration's dtype, in files of at most `PART` bytes, which bound the memory for it."""
    dtype = model.config.dtype
    forms = {name: torch.empty(w.tensor.shape, dtype=dtype, device="meta") for name, w in model.weights.items()}
    split = split_torch_state_dict_into_shards(forms, max_shard_size=PART)
    if split.is_sharded:
        index = {"metadata": split.metadata, "weight_map": split.tensor_to_filename}
        (folder / f"model.safetensors{INDEX}").write_text(json.dumps(index), encoding="utf-8")

    def widened(name: str) -> Tensor:
        bar.update()
        return model.weights[name].widened(dtype).contiguous()

    with (
        tqdm(desc="Reading weights", total=len(forms), disable=not progress) as bar,
        ThreadPoolExecutor(usable_cores()) as threads,
    ):
        for file, names in split.filename_to_tensors.items():
            save_file(dict(zip(names, threads.map(widened, names), strict=True)), folder / file, {"format": "pt"})


def _refuse_full(place: Path, needed: int) -> None:
    free = shutil.disk_usage(place).free
    if free < needed:
        raise DraftscopeError(
            f"'{place}' has {free / 1e9:.1f} GB free, and converting takes {needed / 1e9:.1f} GB; set "
            "DRAFTSCOPE_CACHE to a folder on another disk."
        )
