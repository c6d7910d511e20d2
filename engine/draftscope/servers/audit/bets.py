"""The tests: bets on the next token, each fair if the server samples from its target.

A bet multiplies its wealth by e(y) >= 0, where y is the written token and E_p[e] = 1. Under the null hypothesis the
wealth is a test martingale (Shafer, Shen, Vereshchagin and Vovk 2011), and by Ville's inequality it reaches 1/a with
probability a at most, however often one looks. So do averages of bets: with many, the one that is right pays for all.
Every bet is divided by what the allowance could add to it (`plan.Allowance`), and tokens that do not count leave every
wealth as it is.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from draftscope.base.text import same_start
from draftscope.servers.audit.facts import TILTS, Facts
from draftscope.servers.audit.plan import Allowance
from draftscope.servers.audit.warp import Floats

BINS = 8  # of the ranks
SHARES = (1.0, 0.5, 0.25)  # how much of the ranks' histogram so far is bet on
PRIORS = (10.0, 100.0)  # tokens that the target's own distribution counts for in a context
TRUST = (4.0, 16.0, 64.0)  # tokens that must have been due before their observed number is believed half
COPYING = (0.01, 0.1, 0.5)  # chance of a copied text


class Bet(ABC):
    """Wealth starts at 1; `wealth` is its logarithm, averaged over the variants of this bet."""

    logs: Floats  # of the variants' wealth

    @abstractmethod
    def take(self, facts: Facts) -> None:
        """Adds a text. What is bet on it depends on earlier texts only."""

    @property
    def wealth(self) -> float:
        return float(mean_wealth(self.logs.ravel()))


class PositionBet(Bet):
    """Row 0 of `logs` takes all tokens, row t the t-th of every text."""

    @property
    def wealth(self) -> float:
        return float(mean_wealth(self.logs[0]))

    @property
    def by_position(self) -> Floats:
        return mean_wealth(self.logs[1:])


def mean_wealth(logs: Floats) -> Floats:
    """log of the mean of the wealths whose logarithms lie along the last axis."""
    mean: Floats = np.logaddexp.reduce(logs, -1) - math.log(logs.shape[-1])
    return mean


class ScoreBet(PositionBet):
    """Is the written tokens' log-probability too low or too high?

    e = p^tilt / sum p^(1 + tilt): the likelihood ratio of p sharpened or flattened, so of a wrong temperature, and the
    exponential tilt of the score log p - E log p. The mean over a grid of tilts is a mixture sequential probability
    ratio test (Robbins 1970; Howard, Ramdas, McAuliffe and Sekhon 2021).
    """

    def __init__(self, allowance: Allowance, tokens: int) -> None:
        self._eta = allowance.eta
        self.logs = np.zeros((tokens + 1, len(TILTS)))  # [1 + T, tilts]
        self.costs = np.zeros(len(TILTS))  # of all tokens: what each tilt pays at a score of 0, as a positive number

    def take(self, facts: Facts) -> None:
        cost = facts.norms - np.multiply.outer(facts.mean, TILTS) + np.log1p(self._eta * facts.spreads)
        gain = np.multiply.outer(facts.score, TILTS) - cost
        self.logs[0] += gain.sum(0)
        self.logs[1 : len(gain) + 1] += gain
        self.costs += cost.sum(0)


class RankBet(PositionBet):
    """Are the ranks of the written tokens those of a sample?

    The randomised probability integral transform of a rank is uniform (Dawid 1984; Smith 1985; Brockwell 2007). The bet
    is the histogram of earlier texts' values (Krichevsky and Trofimov 1981), or a share of its distance from uniform:
    the sequential counterpart of the chi-square test, as 2 log(wealth) is nearly its likelihood ratio.
    """

    def __init__(self, allowance: Allowance, tokens: int) -> None:
        self._eta = allowance.eta
        self.counts = np.zeros((tokens + 1, BINS))
        self.logs = np.zeros((tokens + 1, len(SHARES)))

    def take(self, facts: Facts) -> None:
        bins = (facts.pit * BINS).astype(int)
        n = len(bins)
        guess = (self.counts + 0.5) / (self.counts.sum(-1, keepdims=True) + 0.5 * BINS)  # [1 + T, BINS]
        lift = BINS * guess - 1
        spread = np.sqrt((lift**2).mean(-1))
        rows = np.arange(1, n + 1)
        for k, share in enumerate(SHARES):
            price = np.log1p(self._eta * share * spread)
            together = np.log1p(share * lift[0, bins]) - price[0]
            apart = np.log1p(share * lift[rows, bins]) - price[rows]
            self.logs[0, k] += (together * facts.counted).sum()
            self.logs[rows, k] += apart * facts.counted
        np.add.at(self.counts, (rows, bins), facts.counted)
        np.add.at(self.counts[0], bins, facts.counted)


@dataclass
class _Context:
    """The tokens written after one and the same text."""

    total: int = 0
    counts: dict[int, int] = field(default_factory=dict)
    squares: float = 0.0  # sum of count^2 / p


class ContextBet(Bet):
    """After the same text, does the server write other tokens than its target?

    Bets on the tokens written there so far, mixed with p as if p had been seen `prior` times (a Dirichlet process).
    It needs no idea of what could be wrong, and texts that repeat their beginning.
    """

    def __init__(self, allowance: Allowance) -> None:
        self._eta = allowance.eta
        self._seen: defaultdict[tuple[int, tuple[int, ...]], _Context] = defaultdict(_Context)
        self.logs = np.zeros(len(PRIORS))

    def take(self, facts: Facts) -> None:
        for t in np.flatnonzero(facts.counted):
            context = self._seen[facts.prompt, facts.tokens[:t]]
            token, p = facts.tokens[t], math.exp(facts.logp[t])
            count = context.counts.get(token, 0)
            if context.total:
                varies = context.squares - context.total**2
                for k, prior in enumerate(PRIORS):
                    whole = context.total + prior
                    spread = math.sqrt(max(varies, 0.0)) / whole
                    self.logs[k] += math.log((count / p + prior) / whole) - math.log1p(self._eta * spread)
            context.total += 1
            context.counts[token] = count + 1
            context.squares += (2 * count + 1) / p


class TokenBet(Bet):
    """Does the server write some tokens too often, overall or after a certain token?

    Bets on p times the ratio of observed to expected numbers so far, of each bucket of tokens: e = r(y) / sum p r with
    r = (observed + trust) / (expected + trust), overall and by the token before. It finds a bias that most drafters'
    mistakes leave when they are accepted too easily.
    """

    def __init__(self, allowance: Allowance) -> None:
        self._eta = allowance.eta
        self._numbers: dict[int | None, Floats] = {}  # by token before: observed and expected, [2, buckets]
        self._shared = np.array(TRUST)[:, None]
        self.logs = np.zeros((2, len(TRUST)))

    def take(self, facts: Facts) -> None:
        before = [None, *facts.tokens[:-1]]
        for t in np.flatnonzero(facts.counted):
            p, bucket = facts.masses[t], facts.bucket[t]
            for level, key in enumerate((None, before[t])):
                if level and key is None:
                    continue
                numbers = self._numbers.setdefault(key, np.zeros((2, len(p))))
                ratio = (numbers[0] + self._shared) / (numbers[1] + self._shared)  # [trust, BUCKETS]
                mean = ratio @ p
                spread = np.sqrt(np.maximum(ratio**2 @ p / mean**2 - 1, 0))
                self.logs[level] += np.log(ratio[:, bucket] / mean) - np.log1p(self._eta * spread)
                numbers[0, bucket] += 1
                numbers[1] += p


@dataclass
class _Past:
    """The texts written after one prompt so far."""

    tokens: list[tuple[int, ...]] = field(default_factory=list)
    logp: list[float] = field(default_factory=list)


class RepetitionBet(Bet):
    """Does a text repeat an earlier one, of another seed or of a request at the same time, more often than chance?

    e = (1 - c) + c * mean over earlier texts m and lengths l of [the first l tokens are m's] / p(those l tokens):
    the likelihood ratio of a server that copies the beginning of an earlier text with chance c, as it does if it reuses
    its random numbers. p is raised by the largest error that is allowed for.
    """

    def __init__(self, allowance: Allowance) -> None:
        self._slack = allowance.logit
        self._past: defaultdict[int, _Past] = defaultdict(_Past)
        self.logs = np.zeros(len(COPYING))
        self.identical, self.expected = 0, 0.0  # pairs of equal texts, and how many chance alone gives

    def take(self, facts: Facts) -> None:
        past = self._past[facts.prompt]
        known = len(facts.counted) if facts.counted.all() else int(np.argmin(facts.counted))  # tokens before the edge
        whole, logp = known == len(facts.tokens), facts.logp[:known].cumsum()
        if past.tokens:
            raised = logp + self._slack * np.arange(1, known + 1)
            by_length = np.concatenate([[0.0], np.exp(np.minimum(-raised, 600.0))])
            ratio = sum(self._ratio(facts.tokens[:known], token, by_length) for token in past.tokens) / len(past.tokens)
            self.logs += np.log1p(np.multiply(COPYING, ratio - 1))
        if whole:
            self.identical += sum(token == facts.tokens for token in past.tokens)
            self.expected += sum(map(math.exp, past.logp))
        if known:
            past.tokens.append(facts.tokens[:known])
            past.logp.append(float(logp[-1]) if whole else -math.inf)

    @staticmethod
    def _ratio(tokens: tuple[int, ...], past: tuple[int, ...], by_length: Floats) -> float:
        """The mean over the lengths of the copied part; `by_length[l]` is 1 / p(first l tokens)."""
        return float(by_length[1 : same_start(tokens, past) + 1].sum()) / len(past)
