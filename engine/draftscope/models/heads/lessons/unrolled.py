"""Trains heads on their own features, as they draft: EAGLE-3's training-time test (2503.01840), also used for MTP.

At step 1 every row of a text reads the target's feature. At step k it reads the feature it produced itself at step
k - 1, together with the next token of the text. Row i at step k is thus a drafter that started after token i + 1 and
has drafted k - 1 tokens, all correct: it attends to the target's features up to row i and to its own later steps, but
not to later steps of other rows. All rows take each step at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from draftscope.models.heads.head import RecurrentHead
from draftscope.models.heads.lessons.lesson import DepthPair, Distillation, TargetOutput, kl

DRAWN = 1, 1, 2, 4  # steps for a text, drawn evenly: two on average; later tokens count only after the first ones
REGRESSION = 10.0  # weight of EAGLE-1's feature regression relative to its KL (2401.15077, section 3.2)


class Unrolled(Distillation):
    """One step for each weight."""

    student: RecurrentHead

    def draw_depths(self, generator: torch.Generator) -> int:
        return min(DRAWN[int(torch.randint(len(DRAWN), (), generator=generator))], len(self.weights))

    def pairs(self, output: TargetOutput) -> Iterator[DepthPair]:
        depth = output.depths or len(self.weights)
        rows = output.ids.shape[1] - depth
        for step, features in enumerate(unroll(self.student, output.ids, output.states, depth), 1):
            yield DepthPair((slice(None), slice(step, step + rows)), features, self.student.logits)


class Eagle1Lesson(Unrolled):
    """EAGLE-1 learns to predict the target's next feature, from the target's features only."""

    def loss(self, output: TargetOutput) -> Tensor:
        """Ten times the smooth L1 between the student's feature and the target's next one, plus the KL."""
        (features,) = unroll(self.student, output.ids, output.states, 1)
        regression = F.smooth_l1_loss(features.float(), output.states[:, 1:].float())
        return REGRESSION * regression + kl(output.distributions[:, 1:], self.student.logits(features))


def unroll(head: RecurrentHead, ids: Tensor, states: Tensor, depth: int) -> Iterator[Tensor]:
    """The features [B, T - depth, hidden] of each step; row i of step k predicts token i + k + 1. ids [B, T]; states
    [B, T, F] are the target's."""
    rows = ids.shape[1] - depth
    features = head.fuse(states[:, :rows])
    positions = torch.arange(rows, device=ids.device).expand(len(ids), -1)
    cache: Any = Steps()
    for step in range(1, depth + 1):
        mask = step_mask(rows, step, ids.device)
        features = head.advance(ids[:, step : step + rows], features, positions + step - 1, mask, cache)
        yield features


def step_mask(rows: int, step: int, device: torch.device) -> Tensor:
    """[1, 1, rows, step x rows] bool: row i attends to rows 0..i of the first step and to row i of later steps."""
    causal = torch.ones((rows, rows), dtype=torch.bool, device=device).tril()
    diagonal = torch.eye(rows, dtype=torch.bool, device=device)
    return torch.cat([causal, *[diagonal] * (step - 1)], 1)[None, None]


class Steps:
    """Replaces the KV cache: keys and values of all steps so far, with gradients."""

    def __init__(self) -> None:
        self.layers = [self]
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []

    def update(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """New keys and values [B, heads, T, D] -> those of all steps, [B, heads, steps x T, D]."""
        self._keys.append(keys)
        self._values.append(values)
        return torch.cat(self._keys, 2), torch.cat(self._values, 2)
