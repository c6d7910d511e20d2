"""The target: next-token training on packed rows of all domains.

8,192 tokens a step: with Muon the smallest step that still fills two cores, and the
budget buys more steps that way. Seven steps of eight use rows of 512; the eighth uses
rows of 1,024, so that every position the model accepts has been trained. Such a step
takes a fourth longer, hence no more of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn import functional as F
from tqdm import tqdm
from transformers import LlamaForCausalLM

from draftscope.train import loop
from draftscope.train.batches import Batches
from draftscope.train.compiled import Loss
from draftscope.train.corpus import BLOCK, ROW, Texts
from draftscope.train.evaluate import scores
from draftscope.train.optimizers import Rates

RATES = Rates(matrices=4e-3, rest=5e-3)
TOKENS_PER_STEP = 8192


def next_token_loss(model: LlamaForCausalLM, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy in nats; both arguments are [rows, length]."""
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(input_ids=inputs, use_cache=False).logits  # [rows, length, vocabulary]
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def row_length(step: int) -> int:
    """The length of this step's rows."""
    return BLOCK if step % 8 == 7 else ROW


def pretrain(
    model: LlamaForCausalLM,
    texts: Texts,
    folder: Path,
    seconds: float,
    seed: int,
    seen: int = 0,
    loss_of: Loss = next_token_loss,
    tokens_per_step: int = TOKENS_PER_STEP,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[loop.Progress, bool]:
    """Train `model` in place for `seconds` in all; returns the progress and whether it is done.

    `seen` counts the tokens behind the weights the model comes with.
    """
    batches = Batches(texts.train, seed, tokens_per_step)

    def backward(step: int) -> float:
        inputs, targets = batches.rows(step, row_length(step))
        loss = loss_of(model, inputs, targets)
        torch.autograd.backward(loss)
        return loss.item()

    def check(progress: loop.Progress) -> None:
        short = scores(model, texts.val, 8, texts.tokenizer)
        model.train()
        found = ", ".join(f"{name} {value.nats_per_token:.2f}" for name, value in short.items())
        tqdm.write(f"{progress.tokens / 1e6:.2f}M tokens, held-out nats per token (quick): {found}")

    model.train()
    fingerprint = loop.fingerprint(seed, texts.train)
    run = loop.Run(folder, seconds, RATES, tokens_per_step, fingerprint, seen)
    return loop.train(run, model, backward, check, clock)
