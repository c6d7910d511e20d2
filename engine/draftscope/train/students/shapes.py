"""The shapes of the models trained here: targets, drafts of several sizes, a Mamba-2.

All are transformers classes, so any library loads them. On a small CPU the cost of a forward grows with the number of
layers. The draft therefore has one layer (a tenth of the target's time) and the target eight, the smallest number at
which a bf16 forward over eight tokens costs as much as one over a single token.
"""

from __future__ import annotations

from dataclasses import dataclass
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

from draftscope.train.data.tokenizer import END, PAD

ROPE = {"rope_type": "default", "rope_theta": 10000.0}
TOKENS = {"bos_token_id": END, "eos_token_id": END, "pad_token_id": PAD, "tie_word_embeddings": True}
RESIDUAL = ("o_proj.weight", "down_proj.weight", "experts.down_proj", "out_proj.weight")  # ends of residual branches


@dataclass(frozen=True)
class ModelShape:
    """The sizes of one of our Llamas."""

    vocabulary: int
    layers: int
    width: int
    heads: int
    key_value_heads: int
    mlp: int
    positions: int

    def network(self) -> Any:
        return LlamaForCausalLM(LlamaConfig(**self.common(), **TOKENS))

    def common(self) -> dict[str, Any]:
        """These sizes under the names that LlamaConfig and Qwen2MoeConfig share."""
        return {
            "vocab_size": self.vocabulary,
            "num_hidden_layers": self.layers,
            "hidden_size": self.width,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.key_value_heads,
            "head_dim": self.width // self.heads,
            "intermediate_size": self.mlp,
            "max_position_embeddings": self.positions,
            "rope_parameters": dict(ROPE),
            "attn_implementation": "sdpa",
        }


@dataclass(frozen=True)
class ExpertsShape:
    """A Qwen2-MoE with the shape of `inner`, except for the MLP: `experts` of width `mlp`, of which `active` serve each
    token, and a shared expert of width `inner.mlp`."""

    inner: ModelShape
    experts: int
    active: int
    mlp: int

    def network(self) -> Any:
        config = Qwen2MoeConfig(
            **self.inner.common(),
            **TOKENS,
            num_experts=self.experts,
            num_experts_per_tok=self.active,
            moe_intermediate_size=self.mlp,
            shared_expert_intermediate_size=self.inner.mlp,
            norm_topk_prob=True,
        )
        return Qwen2MoeForCausalLM(config)


@dataclass(frozen=True)
class Mamba2Shape:
    """A Mamba-2 that keeps `state` numbers for each of its 2 x `width` channels, however long the text is."""

    vocabulary: int
    layers: int
    width: int
    state: int

    def network(self) -> Any:
        config = Mamba2Config(
            vocab_size=self.vocabulary,
            num_hidden_layers=self.layers,
            hidden_size=self.width,
            state_size=self.state,
            head_dim=32,
            num_heads=self.width // 16,
            n_groups=1,
            chunk_size=64,
            **TOKENS,
        )
        return Mamba2ForCausalLM(config)


AnyShape = ModelShape | ExpertsShape | Mamba2Shape

TARGET = ModelShape(4096, layers=8, width=384, heads=6, key_value_heads=3, mlp=1024, positions=1024)
DRAFT = ModelShape(4096, layers=1, width=192, heads=6, key_value_heads=3, mlp=512, positions=1024)
DRAFT_2L = ModelShape(4096, layers=2, width=192, heads=6, key_value_heads=3, mlp=512, positions=1024)
DRAFT_TINY = ModelShape(4096, layers=1, width=96, heads=3, key_value_heads=1, mlp=192, positions=1024)
DRAFT_HOPELESS = ModelShape(4096, layers=1, width=32, heads=1, key_value_heads=1, mlp=32, positions=1024)
MAMBA2 = Mamba2Shape(4096, layers=1, width=192, state=32)
EXPERTS = ExpertsShape(ModelShape(4096, 4, 256, 4, 2, mlp=256, positions=1024), experts=16, active=2, mlp=128)


def build(shape: AnyShape, seed: int) -> Any:
    """A freshly initialised model in fp32 in which every block starts as the identity."""
    torch.manual_seed(seed)
    return quiet(shape.network())


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
