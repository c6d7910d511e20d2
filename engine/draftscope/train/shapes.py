"""The two shapes the project trains: a deep thin target and a one-layer draft.

Both are plain Llama, so that any library loads them. On a small CPU the cost of a
forward pass follows its layers, hence one layer for the draft (a tenth of the
target's time) and eight for the target, the smallest whose bf16 pass over eight
tokens costs what a pass over one does.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from draftscope.train.tokenizer import END, PAD


@dataclass(frozen=True)
class Shape:
    """What distinguishes one of our Llamas from another."""

    vocabulary: int
    layers: int
    width: int
    heads: int
    key_value_heads: int
    mlp: int
    positions: int


TARGET = Shape(4096, layers=8, width=384, heads=6, key_value_heads=3, mlp=1024, positions=1024)
DRAFT = Shape(4096, layers=1, width=192, heads=6, key_value_heads=3, mlp=512, positions=1024)


def build(shape: Shape, seed: int) -> LlamaForCausalLM:
    """A freshly initialised model in fp32 whose blocks start as the identity."""
    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        num_hidden_layers=shape.layers,
        hidden_size=shape.width,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads,
        head_dim=shape.width // shape.heads,
        intermediate_size=shape.mlp,
        max_position_embeddings=shape.positions,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=True,
        bos_token_id=END,
        eos_token_id=END,
        pad_token_id=PAD,
        attn_implementation="sdpa",
    )
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config)
    # Zero at the end of every residual branch: the first steps then train the
    # embedding alone and no depth-dependent scale is needed.
    for layer in model.model.layers:
        torch.nn.init.zeros_(layer.self_attn.o_proj.weight)
        torch.nn.init.zeros_(layer.mlp.down_proj.weight)
    return model


def parameters(model: torch.nn.Module) -> int:
    """How many numbers the model learns; tied weights are counted once."""
    return sum(weight.numel() for weight in model.parameters())
