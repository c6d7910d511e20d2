"""Modules of a transformers network whose weights lie in memory as in a GGUF file.

The compiled forward reads the blocks. Whatever else asks for a module's `weight`, such as a head that drafts with the
output layer, gets it widened to bfloat16, which then stays in memory beside the blocks.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from draftscope.models.native.linear import stored_linear
from draftscope.models.native.stored_weight import StoredWeight

WIDE = torch.bfloat16


class StoredLinear(nn.Module):
    """An `nn.Linear`. Inputs in float32 are multiplied by the file's values in float32, others by the blocks."""

    def __init__(self, stored: StoredWeight, bias: Tensor | None) -> None:
        super().__init__()
        self.stored = stored
        self.out_features, self.in_features = stored.shape
        self.bias = None if bias is None else nn.Parameter(bias.to(WIDE), requires_grad=False)

    @property
    def weight(self) -> Tensor:
        return self.stored.wide

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == torch.float32:
            return F.linear(x, self.stored.widened(x.dtype), None if self.bias is None else self.bias.float())
        return stored_linear(x, self.stored, self.bias)


class StoredEmbedding(nn.Module):
    """An `nn.Embedding` whose rows are widened as they are looked up, times `scale`."""

    def __init__(self, stored: StoredWeight, scale: float = 1.0) -> None:
        super().__init__()
        self.stored, self.scale, self.dtype = stored, scale, WIDE
        self.num_embeddings, self.embedding_dim = stored.shape

    @property
    def weight(self) -> Tensor:
        return self.stored.wide

    def rows(self, tokens: Tensor) -> Tensor:
        """float32 [..., hidden]: the file's values."""
        values = self.stored.look_up(tokens)
        return values * self.scale if self.scale != 1 else values

    def forward(self, tokens: Tensor) -> Tensor:
        return self.rows(tokens).to(self.dtype)


def stored_of(module: Any) -> StoredWeight | None:
    """The blocks of a module's weight, if it has them."""
    return module.stored if isinstance(module, StoredLinear | StoredEmbedding) else None


def stored_weights(network: Any) -> list[StoredWeight]:
    """All of a network, each once."""
    every = (stored_of(module) for module in network.modules())
    return list({id(weight): weight for weight in every if weight is not None}.values())


def number_of_weights(network: Any) -> int:
    """Of all a network's matrices, norms and biases."""
    return int(network.num_parameters()) + sum(weight.numel() for weight in stored_weights(network))


def exact(module: Any, name: str) -> Tensor:
    """A norm's weight or a bias in float32, as the file has it."""
    value: Tensor = module.__dict__.get(f"{name}_in_file", getattr(module, name)).detach()
    return value.float()


def keep_exact(module: Any, name: str, value: Tensor) -> None:
    """Keeps what bfloat16 rounds away of a norm's weight or a bias."""
    if not value.equal(value.to(WIDE).to(value.dtype)):
        module.__dict__[f"{name}_in_file"] = value.float()
