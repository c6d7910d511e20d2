"""A speculative server in this process, whose verification and reported log-probabilities are those of an exhibit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeAlias

import numpy as np
import torch
from scipy.special import log_softmax

from draftscope.models.model import Model
from draftscope.servers.adapter import Chunk, Request
from draftscope.servers.audit.warp import Floats

READ = 6  # tokens of the text from which the target itself drafts

Dice: TypeAlias = np.random.Generator


@dataclass(frozen=True)
class DraftedRound:
    """What a verification sees: log p [G + 1, V], log q [G, V], the drafted tokens [G]."""

    logp: Floats
    logq: Floats
    drafted: Sequence[int]
    temperature: float


Verify: TypeAlias = Callable[
    [DraftedRound, Dice], list[int]
]  # -> what the round writes: accepted drafts and one token more
Kept: TypeAlias = dict[tuple[tuple[int, ...], int], Floats]
Reporter: TypeAlias = Callable[[Floats], Floats]  # log p of a round's tokens -> what is reported of them


def draw(p: Floats, dice: Dice) -> int:
    return int(min(np.searchsorted(p.cumsum(), dice.random() * p.sum(), side="right"), len(p) - 1))


def by_rejection(seen: DraftedRound, dice: Dice) -> list[int]:
    """The right rule, token by token (2211.17192, 2302.01318)."""
    p, q = np.exp(seen.logp), np.exp(seen.logq)
    for node, token in enumerate(seen.drafted):
        if dice.random() * q[node, token] >= p[node, token]:
            return [*seen.drafted[:node], draw(np.maximum(p[node] - q[node], 0), dice)]
    return [*seen.drafted, draw(p[-1], dice)]


@dataclass
class MuseumServer:
    """Writes with `model`, which is in fp32 on the CPU. Drafts are drawn from what it says after the last tokens alone,
    or (`greedy`) are the best of these."""

    model: Model
    verify: Verify = by_rejection
    report: Reporter = lambda logs: logs
    greedy: bool = False
    gamma: int = 3
    kept: Kept = field(default_factory=dict)  # logits of texts that were read before; servers may share them
    _one: Lock = field(default_factory=Lock)

    def stream(self, request: Request) -> Iterator[Chunk]:
        with self._one:
            yield from self._written(request)

    def _written(self, request: Request) -> Iterator[Chunk]:
        dice, text = np.random.default_rng((7, request.seed)), list(request.ids)
        end = len(text) + request.max_tokens
        while len(text) < end:
            first = len(text) == len(request.ids)  # the prompt's own forward has no drafts
            seen = self.round(text, 0 if first else min(self.gamma, end - len(text) - 1), request.temperature, dice)
            new = _greedy(seen) if not request.temperature else self.verify(seen, dice) if seen.drafted else [
                draw(np.exp(seen.logp[0]), dice)
            ]  # fmt: skip
            logs = seen.logp[np.arange(len(new)), new]
            reports = tuple(self.report(logs) if seen.drafted else logs) if request.logprobs else ()
            text += new
            yield Chunk(tuple(new), "text", 0.0, "length" if len(text) >= end else None, logprobs=reports)

    def round(self, text: Sequence[int], gamma: int, temperature: float, dice: Dice) -> DraftedRound:
        """Drafts `gamma` tokens after a text, and what the target says of them."""
        drafted, q = list[int](), []
        for _ in range(gamma):
            scores = self._logits(tuple([*text, *drafted][-READ:]), 1)
            q.append(log_softmax(scores[0] / (temperature or 1.0)))
            best = self.greedy or not temperature
            drafted.append(int(scores.argmax()) if best else draw(np.exp(q[-1]), dice))
        rows = self._logits((*text, *drafted), gamma + 1)
        width = rows.shape[-1]
        return DraftedRound(
            log_softmax(rows / (temperature or 1.0), -1), np.array(q).reshape(-1, width), drafted, temperature
        )

    def _logits(self, tokens: tuple[int, ...], rows: int) -> Floats:
        """[rows, V] after the last tokens."""
        if (tokens, rows) not in self.kept:
            with torch.inference_mode():
                read = self.model.network(input_ids=torch.tensor([tokens]), use_cache=False, logits_to_keep=rows)
            self.kept[tokens, rows] = read.logits[0].double().numpy()
        return self.kept[tokens, rows]


def _greedy(seen: DraftedRound) -> list[int]:
    best = seen.logp.argmax(-1)
    right = [int(token) == drafted for token, drafted in zip(best, seen.drafted, strict=False)]
    accepted = right.index(False) if False in right else len(right)
    return [*seen.drafted[:accepted], int(best[accepted])]
