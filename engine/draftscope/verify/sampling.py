"""Turns logits into the distribution to sample from, and draws tokens from it.

Target and draft must go through the same `distribution`: warping only one of them is a classic source of bias.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from draftscope.base.common_settings import GeneralSettings
from draftscope.verify.drawing import draw


@dataclass(frozen=True)
class Sampling:
    """Temperature, top-k, top-p and min-p, applied in transformers' order. Temperature 0 is greedy."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0

    @classmethod
    def of(cls, settings: GeneralSettings) -> Sampling:
        return cls(settings.temperature, settings.top_k, settings.top_p, settings.min_p)

    def distribution(self, logits: Tensor) -> Tensor:
        """[..., V] logits -> fp32 probabilities. If greedy: softmax at temperature 1, for display only."""
        scores = logits.float().reshape(-1, logits.shape[-1])
        warped: Tensor = _warpers(self)(None, scores)
        return warped.softmax(-1).view(logits.shape)

    def draw(self, distribution: Tensor, uniform: Tensor) -> Tensor:
        """One token a row: distribution [..., V] of `distribution`, uniform [...] in [0, 1) -> [...] int64. If greedy,
        the most likely one."""
        return distribution.argmax(-1) if self.greedy else draw(distribution, uniform)

    def draw_distinct(self, distribution: Tensor, uniforms: Tensor) -> Tensor:
        """K different tokens a row, in draw order: distribution [..., V] of `distribution`, uniforms [..., K] in [0, 1)
        -> [..., K] int64. If greedy, the K most likely ones. A row of fewer tokens fills up with any."""
        count = uniforms.shape[-1]
        return distribution.topk(count).indices if self.greedy else draw_distinct(distribution, uniforms)[0]


@lru_cache(maxsize=64)
def _warpers(sampling: Sampling) -> LogitsProcessorList:
    warpers = LogitsProcessorList()
    if sampling.greedy:
        return warpers
    if sampling.temperature != 1.0:
        warpers.append(TemperatureLogitsWarper(sampling.temperature))
    if sampling.top_k:
        warpers.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1.0:
        warpers.append(TopPLogitsWarper(sampling.top_p))
    if sampling.min_p:
        warpers.append(MinPLogitsWarper(sampling.min_p))
    return warpers


def draw_distinct(distribution: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """Draws K tokens a row without replacement. distribution [..., V], uniforms [..., K].

    Returns tokens [..., K] in draw order, and bool [..., K]: whether the draw was possible. A distribution with fewer
    than K possible tokens yields fewer children; their number depends on the distribution alone, so this is unbiased.
    """
    left = distribution.clone()
    tokens, real = [], []
    for k in range(uniforms.shape[-1]):
        token = draw(left, uniforms[..., k])
        real.append(left.sum(-1) > 0)
        tokens.append(token)
        left.scatter_(-1, token.unsqueeze(-1), 0.0)
    return torch.stack(tokens, -1), torch.stack(real, -1)


def entropies(distribution: Tensor) -> list[float]:
    """distribution [B, V] -> B entropies in nats, on the host."""
    nats: list[float] = torch.special.entr(distribution).sum(-1).tolist()
    return nats
