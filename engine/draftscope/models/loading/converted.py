"""GGUF files converted once to safetensors in the user's cache, by their content: a folder as `save_pretrained` writes.

A folder appears under its name only when it is complete. Two processes that convert the same file wait for each other.
The network comes from transformers' own reader; what that reader would get wrong is mended or refused.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import torch
import transformers
from filelock import FileLock
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from draftscope.base.assets import cache_folder
from draftscope.base.errors import DraftscopeError
from draftscope.base.machine import own_version
from draftscope.models.files import memory
from draftscope.models.files.contents import refuse_size
from draftscope.models.files.gguf_file import GgufFile, inspected, sha256
from draftscope.models.files.pretrained import loaded, quiet
from draftscope.models.files.tokenizer_file import tokenizer_of

RECORD = "converted.json"  # in every folder: what it was converted from
DIGITS = 16  # of a file's SHA-256 in the name of its folder
CONVERSION = 1  # raised when files are converted in another way, so that none converted before is used
SPARE = 2**28  # bytes on the disk beside the weights
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
GEMMA_WIDTH = 256  # of a head of the Gemma models whose attention is scaled as transformers' configuration says
WITHIN = 1e-3  # relative difference between rotary factors in a file and in a configuration


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


def network_of(file: GgufFile, progress: bool) -> Any:
    """The network with all weights in `file.dtype`. Raises DraftscopeError if the file holds something else."""
    dtype = getattr(torch, file.dtype)
    memory.refuse_weights(
        str(file.path), file.stored.total() * dtype.itemsize, 0, [torch.device("cpu")], f"in {file.dtype}"
    )
    where: dict[str, Any] = {"gguf_file": file.path.name, "shown": str(file.path)}
    config = loaded(AutoConfig, str(file.path.parent), **where)
    if file.head_width is not None and hasattr(config, "head_dim"):
        config.head_dim = file.head_width
    _set_rotary(config, file)
    _refuse_gemma(config, file)
    with nullcontext() if progress else redirect_stderr(StringIO()):  # the reader's bar has no switch
        network = loaded(
            AutoModelForCausalLM,
            str(file.path.parent),
            progress=progress,
            config=config,
            dtype=dtype,
            **_widened(),
            **where,
        )
    _refuse_other_values(network, file)
    if file.ends:
        network.generation_config.eos_token_id = list(file.ends)
    return network


def _widened() -> dict[str, Any]:
    """The option that quantised weights are widened when they are read. Older versions of transformers always do so."""
    has_option = hasattr(transformers, "GgufConfig")  # from 5.20 on
    return {"quantization_config": transformers.GgufConfig(dequantize=True)} if has_option else {}


def _set_rotary(config: Any, file: GgufFile) -> None:
    """A file of Llama 3.1 or later has factors instead of the settings that they were computed from."""
    if not file.rotary_factors:
        return
    factors = torch.tensor(file.rotary_factors)
    plain = dict(config.rope_parameters)
    config.rope_parameters = plain | LLAMA3 | {"rope_type": "llama3", "factor": float(factors.max())}
    width = config.head_dim
    unscaled = 1.0 / plain["rope_theta"] ** (torch.arange(0, width, 2).float() / width)
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
    if len(factors) != len(unscaled) or not torch.allclose(unscaled / scaled, factors, rtol=WITHIN):
        raise DraftscopeError(
            f"'{file.path}' scales its rotary angles in another way than Llama 3.1; name the original checkpoint, a "
            "folder or hub id with safetensors."
        )


def _refuse_gemma(config: Any, file: GgufFile) -> None:
    """The largest Gemma 2 and 3 scale their attention by a number that a file does not hold."""
    if file.architecture.startswith("gemma") and config.head_dim != GEMMA_WIDTH:
        raise DraftscopeError(
            f"'{file.path}' does not say how its attention is scaled (heads of width {config.head_dim}); name the "
            "original checkpoint, a folder or hub id with safetensors."
        )


def _refuse_other_values(network: Any, file: GgufFile) -> None:
    """transformers leaves out tensors that it has no place for."""
    there, held = network.num_parameters(), file.stored.total()
    if there != held:
        raise DraftscopeError(
            f"'{file.path}' holds {held:,} values and a {network.config.model_type} of its shape {there:,}, so it is "
            "another model; name the original checkpoint, a folder or hub id with safetensors."
        )
