"""How much of what a model writes it has just written: the share of repeated 4-grams in its continuations."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from draftscope.measure.bench.statistics import repeated_4grams
from draftscope.train.data.corpus import Domain
from draftscope.train.data.tokenizer import END, PAD

DOCUMENTS, GIVEN, WRITTEN = 8, 24, 96  # held-out documents of a kind, tokens given of each, tokens by the model


@dataclass(frozen=True)
class Repeats:
    """Share of a continuation's 4-grams that stood in it before, the mean over documents."""

    greedy: float
    sampled: float  # at temperature 1


@torch.inference_mode()
def repeats(model: Any, domains: list[Domain], seed: int) -> dict[str, Repeats]:
    """One for each kind of text, of `model` as it was saved."""
    torch.manual_seed(seed)
    return {domain.name: _repeats(model, openings(domain).to(model.device)) for domain in domains}


def openings(domain: Domain) -> Tensor:
    """[documents, GIVEN]: how the first held-out documents begin."""
    starts = [start for start in domain.starts if start + GIVEN <= len(domain.tokens)][:DOCUMENTS]
    return torch.stack([torch.from_numpy(domain.tokens[start : start + GIVEN].astype("int64")) for start in starts])


def _repeats(model: Any, given: Tensor) -> Repeats:
    return Repeats(*(fmean(map(repeated_4grams, written(model, given, WRITTEN, heat))) for heat in (0.0, 1.0)))


def written(model: Any, given: Tensor, count: int, temperature: float) -> list[list[int]]:
    """At most `count` tokens of `model` behind each row of `given`, [rows, length], up to the end of the text."""
    sampled: dict[str, Any] = {"do_sample": True, "temperature": temperature, "top_k": 0}
    rows = model.generate(
        input_ids=given,
        attention_mask=torch.ones_like(given),
        max_new_tokens=count,
        eos_token_id=END,
        pad_token_id=PAD,
        **(sampled if temperature > 0 else {"do_sample": False}),
    )
    own = rows[:, given.shape[1] :].tolist()
    return [row[: row.index(END)] if END in row else row for row in own]
