"""Trains a target: next-token prediction on packed rows of all domains.

On two cores a step has 8,192 tokens: with Muon this is the smallest step that keeps them busy, and small steps mean
more steps within the budget. Seven of eight steps use rows of 512 tokens; the eighth uses rows of 1,024, so that every
position the model supports is trained. Such a step takes a quarter longer, so there are no more of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F
from tqdm import tqdm

from draftscope.train.data.batches import Batches
from draftscope.train.data.corpus import BLOCK, ROW, Texts
from draftscope.train.loop import loop
from draftscope.train.loop.compiling import Loss
from draftscope.train.loop.evaluate import scores
from draftscope.train.loop.optimizers import Rates
from draftscope.train.loop.precision import mixed

BALANCE = 0.01  # weight of the load-balancing loss of mixtures of experts (2101.03961)


@dataclass(frozen=True)
class Recipe:
    """The hyperparameters of a run. `samples` is the number of target-generated rows that a drafter trains on."""

    rates: Rates
    tokens_per_step: int
    samples: int = 0


TARGET = Recipe(Rates(matrices=4e-3, rest=5e-3), tokens_per_step=8192)


def next_token_loss(model: Any, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy in nats, plus a load-balancing loss if there are experts. inputs, targets [rows, length]."""
    routed = {"output_router_logits": True} if hasattr(model.config, "num_experts") else {}
    out = model(input_ids=inputs, use_cache=False, **routed)  # logits [rows, length, vocabulary]
    loss = F.cross_entropy(out.logits.float().flatten(0, 1), targets.flatten())
    return loss + BALANCE * out.aux_loss if routed else loss


def row_length(step: int) -> int:
    """The row length of a step."""
    return BLOCK if step % 8 == 7 else ROW


def pretrain(
    model: Any,
    texts: Texts,
    folder: Path,
    budget: loop.Budget,
    seed: int,
    seen: int = 0,
    recipe: Recipe = TARGET,
    loss_of: Loss = next_token_loss,
) -> tuple[loop.Progress, bool]:
    """Trains `model` in place within `budget`; returns the progress and whether it is done.

    `seen` is the number of tokens that the model's weights were already trained on.
    """
    batches = Batches(texts.train, seed, recipe.tokens_per_step)

    def backward(step: int) -> float:
        inputs, targets = (rows.to(model.device) for rows in batches.rows(step, row_length(step)))
        with mixed(model.device):
            loss = loss_of(model, inputs, targets)
        torch.autograd.backward(loss)
        return loss.item()

    def check(progress: loop.Progress) -> None:
        quick = scores(model, texts.val, 8, texts.tokenizer)
        model.train()
        losses = ", ".join(f"{name} {value.nats_per_token:.2f}" for name, value in quick.items())
        tqdm.write(f"{progress.tokens / 1e6:.2f}M tokens, held-out nats per token (8 rows): {losses}")

    model.train()
    fingerprint = loop.fingerprint(seed, texts.train)
    run = loop.TrainingRun(folder, budget, recipe.rates, recipe.tokens_per_step, fingerprint, seen)
    return loop.train(run, model, backward, check)
