"""The network of a GGUF file, by transformers' own reader; what that reader would get wrong is mended or refused."""

from __future__ import annotations

from contextlib import nullcontext, redirect_stderr
from io import StringIO
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from draftscope.base.errors import DraftscopeError
from draftscope.models.files import memory
from draftscope.models.files.gguf_file import GgufFile
from draftscope.models.files.pretrained import loaded

LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
GEMMA_WIDTH = 256  # of a head of the Gemma models whose attention is scaled as transformers' configuration says
WITHIN = 1e-3  # relative difference between rotary factors in a file and in a configuration


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
