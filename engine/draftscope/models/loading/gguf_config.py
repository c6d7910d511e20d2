"""The configuration of a model in a GGUF file, from the values of its header.

What a file does not say is what llama.cpp takes it to be; where that is not known, the file is refused.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from transformers import AutoConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from draftscope.base.errors import DraftscopeError
from draftscope.models.files.gguf_file import ROTARY_FACTORS, GgufFile
from draftscope.models.files.gguf_header import damaged
from draftscope.models.files.pretrained import quiet

ORIGINAL = "name the original checkpoint, a folder or hub id with safetensors."
MODEL_TYPES = {"gemma3": "gemma3_text"}  # where transformers has another name than llama.cpp
KEYS = {  # llama.cpp's, behind the architecture's name -> transformers'
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
}
TOKENS = {"bos": "bos_token_id", "eos": "eos_token_id", "padding": "pad_token_id", "unknown": "unk_token_id"}
YARN = {"yarn_beta_fast": "beta_fast", "yarn_beta_slow": "beta_slow"}
YARN_LOG = 0.1  # by which yarn's attention grows with the logarithm of its factor
THETA = 10_000.0  # the rotary base of files that name none
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
GEMMA_WIDTH = 256  # of a head of the Gemma models whose attention is scaled by it
GEMMA_27B = {"gemma2": 46, "gemma3": 62}  # layers of those that scale it by hidden values per head
WITHIN = 1e-3  # relative difference between rotary factors in a file and in a configuration


def config_of(file: GgufFile) -> Any:
    """A transformers configuration. Raises DraftscopeError for a file that does not say what it needs to say, or that
    says what no such model has."""
    shape: dict[str, Any] = {name: _count(file, key) for key, name in KEYS.items()}
    shape["head_dim"] = _head_width(file, shape)
    shape["rms_norm_eps"] = _number(file, "attention.layer_norm_rms_epsilon")
    shape["tie_word_embeddings"] = "output.weight" not in file.tensors
    embedding = file.tensors.get("token_embd.weight")
    shape["vocab_size"] = embedding.shape[0] if embedding is not None else 0
    for name, key in TOKENS.items():
        token = file.number(f"tokenizer.ggml.{name}_token_id")
        shape[key] = None if token is None else int(token)
    if file.architecture.startswith("gemma"):
        shape |= _gemma(file, shape)
    shape["rope_parameters"] = _rotary(file, shape["head_dim"], shape["max_position_embeddings"])
    try:
        with quiet():
            return AutoConfig.for_model(MODEL_TYPES.get(file.architecture, file.architecture), **shape)
    except Exception as error:  # of any kind: transformers trusts the types and values in a configuration
        raise damaged(file.path, str(error).split("\n")[0][:120].rstrip(".")) from None


def _number(file: GgufFile, key: str) -> float:
    value = file.shape(key)
    if value is None or not math.isfinite(value) or value <= 0:
        raise damaged(file.path, f"'{file.architecture}.{key}' is {value}")
    return value


def _count(file: GgufFile, key: str) -> int:
    return int(_number(file, key))


def _head_width(file: GgufFile, shape: dict[str, Any]) -> int:
    """Refuses heads whose angles are rotated in part, or whose values have another width: no such model is known."""
    width = int(file.shape("attention.key_length") or shape["hidden_size"] // shape["num_attention_heads"])
    for key in ("attention.value_length", "rope.dimension_count"):
        if (other := file.shape(key)) is not None and other != width:
            raise DraftscopeError(f"'{file.path}' has heads of width {width} and a '{key}' of {other}; {ORIGINAL}")
    return width


def _gemma(file: GgufFile, shape: dict[str, Any]) -> dict[str, Any]:
    """A file does not hold by which number the attention is scaled."""
    width = shape["head_dim"]
    if shape["num_hidden_layers"] == GEMMA_27B[file.architecture]:
        width = shape["hidden_size"] // shape["num_attention_heads"]
    elif width != GEMMA_WIDTH:
        raise DraftscopeError(
            f"'{file.path}' does not say how its attention is scaled (heads of width {width}); {ORIGINAL}"
        )
    window = file.shape("attention.sliding_window")
    return {"query_pre_attn_scalar": width} | ({} if window is None else {"sliding_window": int(window)})


def _rotary(file: GgufFile, width: int, context: int) -> dict[str, Any]:
    rotary = {"rope_theta": file.shape("rope.freq_base") or THETA} | _scaling(file, context)
    if ROTARY_FACTORS in file.tensors:
        rotary = _llama3(file, rotary, width)
    if file.architecture != "gemma3":
        return rotary
    near = {"rope_type": "default", "rope_theta": file.shape("rope.freq_base_swa") or THETA}  # never scaled
    return {"full_attention": rotary, "sliding_attention": near}


def _scaling(file: GgufFile, context: int) -> dict[str, Any]:
    """How a text longer than those of the first training is read."""
    kind = file.text(f"{file.architecture}.rope.scaling.type") or "linear"
    factor = file.shape("rope.scaling.factor") or file.shape("rope.scale_linear") or 1.0
    if kind == "none" or (kind == "linear" and factor == 1.0):
        return {"rope_type": "default"}
    if kind == "linear" and factor > 0:
        return {"rope_type": "linear", "factor": factor}
    if kind != "yarn" or factor <= 0:
        raise DraftscopeError(
            f"'{file.path}' scales its rotary angles ('{kind}'), which is not read from GGUF files; {ORIGINAL}"
        )
    original = file.shape("rope.scaling.original_context_length") or context
    given = {name: file.shape(f"rope.scaling.{key}") for key, name in YARN.items()}
    if attention := file.shape("rope.scaling.attn_factor") or file.shape("rope.scaling.yarn_attn_factor"):
        given["attention_factor"] = attention * (1.0 + YARN_LOG * math.log(factor))
    return {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": int(original)} | {
        name: value for name, value in given.items() if value is not None
    }


def _llama3(file: GgufFile, rotary: dict[str, Any], width: int) -> dict[str, Any]:
    """A file of Llama 3.1 or later has factors instead of the settings that they were computed from."""
    factors = file.tensors[ROTARY_FACTORS].widened(torch.float32).reshape(-1)
    if rotary["rope_type"] == "default" and bool((factors == 1).all()):
        return rotary
    if rotary["rope_type"] == "default" and len(factors) == width // 2:
        scaled = rotary | LLAMA3 | {"rope_type": "llama3", "factor": float(factors.max())}
        config = AutoConfig.for_model("llama", head_dim=width, rope_parameters=scaled)
        plain = 1.0 / rotary["rope_theta"] ** (torch.arange(0, width, 2).float() / width)
        frequencies, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
        if torch.allclose(plain / frequencies, factors, rtol=WITHIN):
            return scaled
    raise DraftscopeError(f"'{file.path}' scales its rotary angles in another way than Llama 3.1; {ORIGINAL}")
