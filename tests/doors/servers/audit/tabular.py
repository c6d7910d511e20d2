"""Servers of our own on a table of probabilities: an exact one, and mutants that an audit must catch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from draftscope.servers.adapter import Chunk, Request
from draftscope.servers.audit.warp import Floats, warped
from draftscope.servers.programs.program_list import find
from draftscope.verify.sampling import Sampling

VOCABULARY = 24
Dice = np.random.Generator
Rule = Callable[[Floats, Floats, Dice], int]  # p, q -> token


def context_of(tokens: Sequence[int]) -> int:
    """The row of the table: a Markov chain."""
    return tokens[-1]


@dataclass
class Table:
    """The target: logits by context. `noise` is the error of another kernel, fixed for each context and token."""

    noise: float = 0.0
    ends: tuple[int, ...] = ()
    vocabulary: int = VOCABULARY
    _logits: Floats = field(init=False)

    def __post_init__(self) -> None:
        dice = np.random.default_rng(5)
        self._logits = 1.5 * dice.standard_normal((VOCABULARY, VOCABULARY))
        self._logits += self.noise * np.random.default_rng(6).standard_normal(self._logits.shape)

    def row(self, tokens: Sequence[int]) -> Floats:
        row: Floats = self._logits[context_of(tokens)]
        return row

    def logits(self, prompt: Sequence[int], texts: Sequence[Sequence[int]]) -> list[Floats]:
        return [
            np.stack([self.row([*prompt, *text[:t]]) for t in range(len(text))]).astype(np.float64) for text in texts
        ]


def draw(p: Floats, dice: Dice) -> int:
    return int(min(np.searchsorted(p.cumsum(), dice.random() * p.sum(), side="right"), len(p) - 1))


def plain(p: Floats, q: Floats, dice: Dice) -> int:
    return draw(p, dice)


def token_rule(p: Floats, q: Floats, dice: Dice) -> int:
    """The right rule: Leviathan, Kalman and Matias 2023."""
    x = draw(q, dice)
    return x if dice.random() < p[x] / q[x] else draw(np.maximum(p - q, 0), dice)


def argmax_drafts(p: Floats, q: Floats, dice: Dice) -> int:
    """Drafts q's best token and verifies it as if it had been drawn from q."""
    x = int(q.argmax())
    return x if dice.random() < p[x] / q[x] else draw(np.maximum(p - q, 0), dice)


def wrong_residual(p: Floats, q: Floats, dice: Dice) -> int:
    """Draws from p, not from what p has more than q, after a rejection."""
    x = draw(q, dice)
    return x if dice.random() < p[x] / q[x] else draw(p, dice)


def lenient(p: Floats, q: Floats, dice: Dice) -> int:
    x = draw(q, dice)
    return x if dice.random() < 2 * p[x] / q[x] else draw(np.maximum(p - q, 0), dice)


@dataclass
class TabularServer:
    """Writes by `rule` from the second token on; the first one is always plain, as after a prefill."""

    rule: Rule = token_rule
    noise: float = 0.0
    temperature: float | None = None  # instead of the one asked for
    ignores: str = ""  # top_k, top_p or min_p
    seed_of: Callable[[Request], int] = lambda request: request.seed
    order: str = "vllm"

    def __post_init__(self) -> None:
        self._target = Table(self.noise)
        self._cache: dict[tuple[int, Sampling], tuple[Floats, Floats]] = {}

    def stream(self, request: Request) -> Iterator[Chunk]:
        dice, tokens = np.random.default_rng((99, self.seed_of(request))), list(request.ids)
        asked = {"top_k": request.top_k, "top_p": request.top_p, "min_p": request.min_p}
        kept = {name: value for name, value in asked.items() if name != self.ignores}
        sampling = Sampling(self.temperature or request.temperature, **kept)  # type: ignore[arg-type]
        for t in range(request.max_tokens):
            p, q = self._laws(context_of(tokens), tokens, sampling)
            tokens.append((plain if t == 0 else self.rule)(p, q, dice))
        yield Chunk(tuple(tokens[len(request.ids) :]), "text", 0.0, "length")

    def _laws(self, context: int, tokens: Sequence[int], sampling: Sampling) -> tuple[Floats, Floats]:
        """p, and a drafter's q: the same logits with large errors."""
        key = (context, sampling)
        if key not in self._cache:
            logits = self._target.row(tokens)
            wrong = logits + np.random.default_rng(context).standard_normal(VOCABULARY)
            both = warped(np.stack([logits, wrong]), sampling, find(self.order).sampling_order)[0]
            p, q = np.exp(both)
            self._cache[key] = (p, q)
        return self._cache[key]
