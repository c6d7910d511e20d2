"""How much a model repeats itself: the share of repeated 4-grams in its continuations."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from draftscope.measure.bench.statistics import repeated_4grams
from draftscope.train.data.corpus import Domain
from draftscope.train.data.tokenizer import END, PAD

DOCUMENTS, GIVEN, WRITTEN = 8, 24, 96  # held-out documents of each kind, tokens given of each, tokens generated


@dataclass(frozen=True)
class Repeats:
    """Share of a continuation's 4-grams that occurred in it before, averaged over documents."""

    greedy: float
    sampled: float  # at temperature 1


@torch.inference_mode()
def repeats(model: Any, domains: list[Domain], seed: int) -> dict[str, Repeats]:
    """The repeats of the saved `model`, for each domain."""
    torch.manual_seed(seed)
    return {domain.name: _repeats(model, openings(domain).to(model.device)) for domain in domains}


def openings(domain: Domain) -> Tensor:
    """[documents, GIVEN]: the first tokens of the first held-out documents."""
    starts = [start for start in domain.starts if start + GIVEN <= len(domain.tokens)][:DOCUMENTS]
    return torch.stack([torch.from_numpy(domain.tokens[start : start + GIVEN].astype("int64")) for start in starts])


def _repeats(model: Any, given: Tensor) -> Repeats:
    texts = [written(model, given, WRITTEN, temperature) for temperature in (0.0, 1.0)]
    return Repeats(*(fmean(map(repeated_4grams, continuations)) for continuations in texts))


def written(model: Any, given: Tensor, count: int, temperature: float) -> list[list[int]]:
    """Up to `count` tokens that `model` generates after each row of `given` [rows, length], until the text ends."""
    sampled: dict[str, Any] = {"do_sample": True, "temperature": temperature, "top_k": 0}
    rows = model.generate(
        input_ids=given,
        attention_mask=torch.ones_like(given),
        max_new_tokens=count,
        eos_token_id=END,
        pad_token_id=PAD,
        **(sampled if temperature > 0 else {"do_sample": False}),
    )
    continuations = rows[:, given.shape[1] :].tolist()
    return [row[: row.index(END)] if END in row else row for row in continuations]
