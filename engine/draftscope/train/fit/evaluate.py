"""How well a model predicts held-out text, domain by domain."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import Tokenizer
from torch.nn import functional as F

from draftscope.models.heads.lessons import Distillation, TargetOutput
from draftscope.train.data.corpus import ROW, Domain
from draftscope.train.fit.numerics import mixed


@dataclass(frozen=True)
class Score:
    """Held-out loss of one domain."""

    nats_per_token: float
    bits_per_byte: float
    tokens: int


def held_out(domain: Domain, rows: int) -> torch.Tensor:
    """Up to `rows` rows spread evenly over a domain's held-out text, [rows, ROW + 1]."""
    whole = (len(domain.tokens) - 1) // ROW
    chosen = range(0, whole, max(1, whole // rows))[:rows]
    flat = torch.from_numpy(domain.tokens.astype("int64"))
    return torch.stack([flat[i * ROW : i * ROW + ROW + 1] for i in chosen])


@torch.inference_mode()
def score(model: Any, domain: Domain, rows: int, tokenizer: Tokenizer) -> Score:
    """Mean loss over the held-out rows, per token and per byte of their text."""
    ids = held_out(domain, rows)  # [rows, ROW + 1]
    total = 0.0
    for row in torch.split(ids.to(model.device), 8):
        with mixed(model.device):
            logits = model(input_ids=row[:, :-1], use_cache=False).logits  # [8, ROW, vocabulary]
        total += F.cross_entropy(logits.float().flatten(0, 1), row[:, 1:].flatten(), reduction="sum").item()
    texts = tokenizer.decode_batch([row.tolist() for row in ids[:, 1:]], skip_special_tokens=True)
    count = ids[:, 1:].numel()
    return Score(total / count, total / math.log(2) / sum(len(text.encode()) for text in texts), count)


def scores(model: Any, domains: list[Domain], rows: int, tokenizer: Tokenizer) -> dict[str, Score]:
    """One score per domain."""
    model.eval()
    return {domain.name: score(model, domain, rows, tokenizer) for domain in domains}


@dataclass(frozen=True)
class Agreement:
    """How much a drafter and its target agree on one domain's held-out text, by depth.

    Entry k is about the token k + 1 places after the last one that the target has read, given that all drafted tokens
    before it are the text's own. A draft model reads the text itself: all depths are equal and it has one entry.
    """

    alpha: tuple[float, ...]  # mean of sum min(p, q) at temperature 1
    greedy: tuple[float, ...]  # share of tokens for which both have the same most probable token
    tokens: int

    @property
    def alphas(self) -> str:
        """The alphas, for a progress line."""
        return "/".join(f"{value:.2f}" for value in self.alpha)


@torch.inference_mode()
def agreement(lesson: Distillation, domain: Domain, rows: int) -> Agreement:
    """The agreement on up to `rows` held-out rows of a domain."""
    ids = held_out(domain, rows)[:, :-1]  # [rows, ROW]
    return agreement_on(lesson, _on_text(lesson, ids))


def _on_text(lesson: Distillation, ids: torch.Tensor) -> Iterator[TargetOutput]:
    """The target's output on texts [rows, T], eight at a time, with its probabilities."""
    generator, device = torch.Generator().manual_seed(0), lesson.target.device
    for row in torch.split(ids, 8):
        drawn = lesson.draw(row, generator)
        with mixed(device):
            output = lesson.run_target(row.to(device), None if drawn is None else drawn.to(device))
        yield output._replace(distributions=output.distributions.float().softmax(-1))


@torch.inference_mode()
def agreement_on(lesson: Distillation, outputs: Iterable[TargetOutput]) -> Agreement:
    """alpha = sum min(p, q) is the probability that one drafted token is accepted (2211.17192, theorem 3.5).

    The outputs' distributions are probabilities over the target's vocabulary.
    """
    sums = torch.zeros(3, len(lesson.weights))  # alpha, greedy, count
    tokens = 0
    for output in outputs:
        tokens += output.ids.numel() if output.counted is None else int(output.counted.sum())
        with mixed(output.ids.device):
            for depth, pair in enumerate(lesson.pairs(output)):
                p, student = pair.rows_of(output)
                q = lesson.to_target(student.float().softmax(-1))
                same = p.argmax(-1) == q.argmax(-1)
                sums[:, depth] += torch.tensor([torch.minimum(p, q).sum(), same.sum(), same.numel()])
    alpha, greedy = (sums[:2] / sums[2].clamp(min=1)).tolist()
    return Agreement(tuple(alpha), tuple(greedy), tokens)


def agreements(lesson: Distillation, domains: list[Domain], rows: int) -> dict[str, Agreement]:
    """One agreement per domain."""
    lesson.student.eval()
    return {domain.name: agreement(lesson, domain, rows) for domain in domains}
