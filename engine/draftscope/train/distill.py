"""The draft: one layer that learns the target's whole next-token law.

Forward KL at temperature 1 over the full vocabulary, p the target and q the draft: on
every position the draft is told all 4,096 probabilities, not the one token that
happened to follow. One step in eight reads text that the target wrote itself.

Half the target's tokens a step: a model this small gains more from twice the steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn import functional as F
from tqdm import tqdm
from transformers import LlamaForCausalLM

from draftscope.train import loop
from draftscope.train.batches import Batches
from draftscope.train.compiled import Loss
from draftscope.train.corpus import ROW, Texts
from draftscope.train.evaluate import agreements
from draftscope.train.optimizers import Rates
from draftscope.train.pretrain import row_length
from draftscope.train.samples import sampled_rows

RATES = Rates(matrices=4e-3, rest=1e-2)
TOKENS_PER_STEP = 4096
SAMPLES = 256  # rows of the target's own text


@dataclass(frozen=True)
class Pair:
    """The target p and the draft q that learns from it."""

    target: LlamaForCausalLM
    draft: LlamaForCausalLM


def forward_kl(pair: Pair, inputs: torch.Tensor) -> torch.Tensor:
    """Mean KL(p || q) in nats over the positions of `inputs`, [rows, length]."""
    with torch.autocast("cpu", torch.bfloat16):
        with torch.no_grad():
            p = pair.target(input_ids=inputs, use_cache=False).logits  # [rows, length, vocabulary]
        q = pair.draft(input_ids=inputs, use_cache=False).logits
    log_p = F.log_softmax(p.float(), dim=-1)
    log_q = F.log_softmax(q.float(), dim=-1)
    return (log_p.exp() * (log_p - log_q)).sum(-1).mean()


def distill(
    pair: Pair,
    texts: Texts,
    folder: Path,
    seconds: float,
    seed: int,
    seen: int = 0,
    loss_of: Loss = forward_kl,
    tokens_per_step: int = TOKENS_PER_STEP,
    samples: int = SAMPLES,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[loop.Progress, bool]:
    """Train `pair.draft` in place for `seconds` in all; returns the progress and whether it is done.

    `seen` counts the tokens behind the weights the draft comes with.
    """
    batches = Batches(texts.train, seed, tokens_per_step)
    fingerprint = loop.fingerprint(seed, texts.train, pair.target)
    written = sampled_rows(pair.target, batches, samples, ROW, seed, folder / f"samples.{fingerprint}.pt")

    def backward(step: int) -> float:
        loss = loss_of(pair, _inputs(batches, written, step, tokens_per_step))
        torch.autograd.backward(loss)
        return loss.item()

    def check(progress: loop.Progress) -> None:
        short = agreements(pair.target, pair.draft, texts.val, 8)
        pair.draft.train()
        found = ", ".join(f"{name} {value.alpha:.2f}" for name, value in short.items())
        tqdm.write(f"{progress.tokens / 1e6:.2f}M tokens, alpha at T=1 (quick): {found}")

    pair.target.requires_grad_(False).eval()
    pair.draft.train()
    run = loop.Run(folder, seconds, RATES, tokens_per_step, fingerprint, seen)
    return loop.train(run, pair.draft, backward, check, clock)


def _inputs(batches: Batches, written: torch.Tensor, step: int, tokens: int) -> torch.Tensor:
    """This step's text, [rows, length]: the corpus, or every eighth time the target's own."""
    if step % 8 != 3:
        return batches.rows(step, row_length(step))[0]
    rows = tokens // ROW
    return written[(torch.arange(rows) + step // 8 * rows) % len(written), :-1]
