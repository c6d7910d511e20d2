"""Two servers without weights: do they write the same texts? A sequential two-sample test.

Both get the same requests. If their distributions are equal, then of the two texts after a prompt either is as likely
to be the audited server's. So a guess that was learned from earlier pairs is right half of the time, and a bet on it
is fair: e = 1 + b * (1 if right, -1 if wrong) (Shekhar and Ramdas 2023; Pandeva, Bakker, Naesseth and Forre 2022). The
guess is the log-ratio of how often each server wrote the text's tokens so far: overall, after the token before, and
after the same text, where repetition shows too.

Rounding: the null hypothesis allows a chance of up to (1 + d) / 2 for one order, d = eta * sqrt(T / 2) with T tokens a
text, the size at which independent errors of the logits move the log-ratio of two texts. Every bet is divided by
1 + |b| d, the most that this adds.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

import numpy as np
from scipy.optimize import brentq

from draftscope.servers.audit.bets import mean_wealth
from draftscope.servers.audit.missed import DEVIATIONS
from draftscope.servers.audit.plan import Allowance, Plan
from draftscope.servers.audit.text_writer import Writer, Written
from draftscope.servers.audit.waves import AuditState, in_waves

END = 2**31 - 1  # stands for whatever token ends a text
SHARES = (0.25, 1.0)  # of the guess that is bet on
TRUST = 4.0  # tokens seen before a ratio is believed half
MOST = 0.95  # of the wealth that is bet at most

Tokens: TypeAlias = tuple[int, ...]


class NoTarget:
    """What the audit knows of a model without its weights."""

    ends: Tokens = (END,)
    vocabulary = END + 1

    def logits(self, prompt: Sequence[int], texts: Sequence[Sequence[int]]) -> list[np.ndarray]:
        raise NotImplementedError("there are no weights")


@dataclass
class Compared(AuditState):
    """Two servers compared, as far as it is."""

    allowance: Allowance = field(kw_only=True)
    pairs: int = 0
    right: int = 0  # pairs whose order was guessed right, before it was known
    guessed: int = 0
    logs: np.ndarray = field(default_factory=lambda: np.zeros((3, len(SHARES))))
    fewest: ClassVar[int] = 10
    _seen: tuple[Counter[Hashable], Counter[Hashable]] = field(default_factory=lambda: (Counter(), Counter()))
    _strangest: float = 0.0

    @property
    def texts(self) -> int:
        return self.pairs

    @property
    def total(self) -> float:
        return float(mean_wealth(self.logs.ravel()))

    def take(self, number: int, texts: Sequence[Sequence[Written]]) -> None:
        for ours, other in texts:
            self.compare(number, ours.with_end(NoTarget.ends), other.with_end(NoTarget.ends))

    def compare(self, number: int, ours: Tokens, other: Tokens) -> None:
        """A text of the audited server and one of the other, after the same prompt."""
        guesses = self._ratios(number, ours) - self._ratios(number, other)
        bets = MOST * np.tanh(np.multiply.outer(guesses, SHARES) / 2)
        d = self.allowance.eta * math.sqrt(self.plan.tokens / 2)
        self.logs += np.log1p(bets) - np.log1p(d * np.abs(bets))
        guess = float(guesses.sum())
        self.pairs += 1
        self.guessed += guess != 0
        self.right += guess > 0
        if guess > self._strangest:
            self._strangest, self.example = guess, (number, ours)
        for seen, text in zip(self._seen, (ours, other), strict=True):
            for features in _features(number, text):
                seen.update(features)

    def _ratios(self, number: int, text: Tokens) -> np.ndarray:
        ours, other = self._seen
        return np.array(
            [
                sum(math.log((ours[feature] + TRUST) / (other[feature] + TRUST)) for feature in features)
                for features in _features(number, text)
            ]
        )


def _features(number: int, text: Tokens) -> list[list[Hashable]]:
    """The tokens of a text: alone, after the token before, after the prompt and all tokens before."""
    return [
        list(text),
        [(text[t - 1] if t else None, token) for t, token in enumerate(text)],
        [(number, text[: t + 1]) for t in range(len(text))],
    ]


def compared(
    writer: Writer,
    other: Writer,
    prompts: Sequence[Sequence[int]],
    plan: Plan,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Compared]:
    """Compares the texts of two servers, as `in_waves`."""
    yield from in_waves(Compared(plan, allowance=plan.allowance), [writer, other], prompts, clock)


def min_accuracy(state: Compared) -> float | None:
    """The share of pairs told apart from which on a difference would have been found with a power of 95%, if the guess
    had been that good from the beginning; None: none would."""
    need = math.log(state.logs.size / state.plan.false_alarm)
    d = state.allowance.eta * math.sqrt(state.plan.tokens / 2)

    def surplus(right: float) -> float:
        bet = min(2 * right - 1, MOST)
        win, lose = math.log1p(bet) - math.log1p(d * bet), math.log1p(-bet) - math.log1p(d * bet)
        growth, spread = right * win + (1 - right) * lose, (win - lose) * math.sqrt(right * (1 - right))
        return state.pairs * growth - DEVIATIONS * math.sqrt(state.pairs) * spread - need

    most = 1 - 1e-9
    return float(brentq(surplus, 0.5 + d / 2 + 1e-6, most)) if surplus(most) > 0 else None


def pairs_sentence(state: Compared) -> str:
    result = f"{state.right} of {state.guessed} pairs of texts told apart"
    if state.different:
        return f"differs from the plain server: {result}, {state.pairs} pairs"
    least = min_accuracy(state)
    seen = "too few pairs to find even large differences"
    if least is not None:
        seen = f"would have seen a difference that tells {100 * least:.0f}% of the pairs apart"
    return (
        f"no difference from the plain server found in {state.pairs} pairs at T = {state.plan.sampling.temperature:g}; "
        f"{seen} (allowed for rounding: {state.allowance.nats:.2g} nats a token)"
    )
