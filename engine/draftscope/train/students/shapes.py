"""The shapes of the models trained here: targets, drafts of several sizes, a Mamba-2.

All are transformers classes, so any library loads them. On a small CPU the cost of a forward grows with the number of
layers. The draft therefore has one layer (a tenth of the target's time) and the target eight, the smallest number at
which a bf16 forward over eight tokens costs as much as one over a single token.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Mamba2Config,
    Mamba2ForCausalLM,
    Qwen2MoeConfig,
    Qwen2MoeForCausalLM,
)

from draftscope.train.data.corpus import END, PAD

ROPE = {"rope_type": "default", "rope_theta": 10000.0}
TOKENS = {"bos_token_id": END, "eos_token_id": END, "pad_token_id": PAD, "tie_word_embeddings": True}
RESIDUAL = ("o_proj.weight", "down_proj.weight", "experts.down_proj", "out_proj.weight")  # ends of residual branches


def llama(
    vocabulary: int, layers: int, width: int, heads: int, key_value_heads: int, mlp: int, positions: int = 1024
) -> Any:
    """The configuration of a Llama of these sizes."""
    return LlamaConfig(**_sizes(vocabulary, layers, width, heads, key_value_heads, mlp, positions))


def mixture(*sizes: int, experts: int, active: int, mlp: int) -> Any:
    """A Qwen2-MoE of the `sizes` of a `llama`, except for its MLP: `experts` of width `mlp`, of which `active` serve
    each token, and a shared expert as wide as the Llama's."""
    common = _sizes(*sizes)
    return Qwen2MoeConfig(
        **common,
        num_experts=experts,
        num_experts_per_tok=active,
        moe_intermediate_size=mlp,
        shared_expert_intermediate_size=common["intermediate_size"],
        norm_topk_prob=True,
    )


def mamba2(vocabulary: int, layers: int, width: int, state: int) -> Any:
    """A Mamba-2 that keeps `state` numbers for each of its 2 x `width` channels, however long the text is."""
    return Mamba2Config(
        vocab_size=vocabulary,
        num_hidden_layers=layers,
        hidden_size=width,
        state_size=state,
        head_dim=32,
        num_heads=width // 16,
        n_groups=1,
        chunk_size=64,
        **TOKENS,
    )


def _sizes(
    vocabulary: int, layers: int, width: int, heads: int, key_value_heads: int, mlp: int, positions: int = 1024
) -> dict[str, Any]:
    """The names that LlamaConfig and Qwen2MoeConfig share."""
    return TOKENS | {
        "vocab_size": vocabulary,
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": heads,
        "num_key_value_heads": key_value_heads,
        "head_dim": width // heads,
        "intermediate_size": mlp,
        "max_position_embeddings": positions,
        "rope_parameters": dict(ROPE),
        "attn_implementation": "sdpa",
    }


TARGET = llama(4096, layers=8, width=384, heads=6, key_value_heads=3, mlp=1024)
DRAFT = llama(4096, layers=1, width=192, heads=6, key_value_heads=3, mlp=512)
SHAPES: dict[str, Any] = {  # of the members that are whole models, not heads
    "target": TARGET,
    "draft": DRAFT,
    "draft-2l": llama(4096, layers=2, width=192, heads=6, key_value_heads=3, mlp=512),
    "draft-tiny": llama(4096, layers=1, width=96, heads=3, key_value_heads=1, mlp=192),
    "draft-hopeless": llama(4096, layers=1, width=32, heads=1, key_value_heads=1, mlp=32),
    "mamba2": mamba2(4096, layers=1, width=192, state=32),
    "experts": mixture(4096, 4, 256, 4, 2, 256, experts=16, active=2, mlp=128),
    "experts-draft": DRAFT,
}
NETWORKS = {LlamaConfig: LlamaForCausalLM, Qwen2MoeConfig: Qwen2MoeForCausalLM, Mamba2Config: Mamba2ForCausalLM}


def build(config: Any, seed: int) -> Any:
    """A freshly initialised model in fp32 in which every block starts as the identity."""
    torch.manual_seed(seed)
    return quiet(NETWORKS[type(config)](deepcopy(config)))


def quiet(network: Any) -> Any:
    """Zeroes the last weight of every residual branch: the first steps then train only the embedding, and no
    depth-dependent scale is needed."""
    for name, weight in network.named_parameters():
        if name.endswith(RESIDUAL):
            torch.nn.init.zeros_(weight)
    return network


def parameters(model: torch.nn.Module) -> int:
    """The number of trainable parameters; tied weights are counted once."""
    return sum(weight.numel() for weight in model.parameters())
