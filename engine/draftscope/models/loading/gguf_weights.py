"""The weights of a GGUF file by transformers' names, as they are stored: a table of names and a few changes of form.

Every change leaves the bytes of a row together, so that it can be made to weights of any type: llama.cpp keeps the two
halves of Llama's rotary pairs side by side, and Gemma's norms plus 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from draftscope.base.errors import DraftscopeError
from draftscope.models.files.gguf_file import ROTARY_FACTORS, GgufFile
from draftscope.models.files.gguf_tensor import StoredTensor
from draftscope.models.loading.gguf_config import ORIGINAL

WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
GEMMA_LAYER = LAYER | {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
ROTARY_PAIRS = ("q_proj", "k_proj")


class FileWeight(NamedTuple):
    """A weight as it lies in the file. `heads`: its rows are rotary pairs of so many heads, side by side; else 0.
    `less`: what its values are lessened by."""

    tensor: StoredTensor
    heads: int = 0
    less: float = 0.0

    @property
    def kind(self) -> str:
        """ggml's name of its type, such as 'Q4_K'."""
        return self.tensor.kind

    def widened(self, dtype: torch.dtype) -> Tensor:
        """The values in `dtype`."""
        if self.less:
            return (self.tensor.widened(torch.float32) - self.less).to(dtype)
        return self.in_order(self.tensor.widened(dtype))

    def in_order(self, rows: Tensor) -> Tensor:
        """Rows of the file in transformers' order."""
        if not self.heads:
            return rows
        return rows.view(self.heads, -1, 2, *rows.shape[1:]).transpose(1, 2).reshape(rows.shape)


def stored_weights(file: GgufFile, config: Any) -> dict[str, FileWeight]:
    """Every weight of the file by the name of its parameter. Raises DraftscopeError for a tensor without a name."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    weights = {}
    for name, tensor in file.tensors.items():
        if name == ROTARY_FACTORS:  # in the configuration
            continue
        parameter = _parameter(name, file.architecture)
        if parameter is None:
            raise _no_place(file, name)
        paired = heads.get(parameter.split(".")[-2], 0) if file.architecture == "llama" else 0
        less = 1.0 if file.architecture.startswith("gemma") and "norm" in parameter else 0.0
        weights[parameter] = FileWeight(tensor, paired, less)
    return weights


def refuse_other_shapes(file: GgufFile, weights: dict[str, FileWeight], network: Any) -> None:
    """Raises DraftscopeError unless the file has every weight of this network, in its shape, and no other."""
    expected = {name: tuple(parameter.shape) for name, parameter in network.named_parameters()}
    for name, weight in weights.items():
        if expected.get(name) != weight.tensor.shape:
            raise _no_place(file, name)
    if missing := sorted(expected.keys() - weights.keys()):
        raise DraftscopeError(f"'{file.path}' lacks {len(missing)} weights, for example '{missing[0]}'; {ORIGINAL}")


def _no_place(file: GgufFile, name: str) -> DraftscopeError:
    return DraftscopeError(
        f"'{file.path}' holds '{name[:80]}', for which a {file.architecture} of its shape has no place, so it is "
        f"another model; {ORIGINAL}"
    )


def _parameter(name: str, architecture: str) -> str | None:
    """transformers' name of a tensor; None if this architecture has none like it."""
    stem, _, suffix = name.rpartition(".")
    if stem in WHOLE:
        return f"{WHOLE[stem]}.{suffix}"
    block, _, rest = stem.partition(".")
    number, _, part = rest.partition(".")
    names = GEMMA_LAYER if architecture.startswith("gemma") else LAYER
    return f"model.layers.{number}.{names[part]}.{suffix}" if block == "blk" and part in names else None
