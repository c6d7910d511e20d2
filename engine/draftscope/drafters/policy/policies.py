"""Which arm is next? Policies over arms whose reward is tokens per second, as a ratio of sums.

A mean of the rounds' rates would give a short round the weight of a long one; what counts is all tokens over all time.
So every arm has two means, the tokens and the milliseconds of a round, each with its own uncertainty: a result may
imply the tokens of arms that were not pulled, while a time has to be measured. At first each arm is pulled once, in
order. A policy handles numbers only, no tensors and no text.

UCB1: Auer, Cesa-Bianchi, Fischer 2002. Thompson sampling: Thompson 1933. Exp3 with side observations: Alon et al.
1409.8428. As policies over drafts: BanditSpec 2505.15141, TapOut 2511.02017; full information: 2510.20064.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from statistics import NormalDist

TOKENS_SD = 1.0  # initial standard deviation of a round's tokens; has the weight of one round
MS_SHARE = 0.3  # initial standard deviation of a round's time over its mean; has the weight of one round


class Mean:
    """A running mean and its standard error, given the `spread` that is assumed at first."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self._squares = 0.0  # sum of squared differences from the mean

    def add(self, value: float) -> None:
        self.count += 1
        off = value - self.mean
        self.mean += off / self.count
        self._squares += off * (value - self.mean)

    def error(self, spread: float) -> float:
        return math.sqrt((self._squares + spread**2) / (self.count * self.count)) if self.count else math.inf


class ArmStatistics:
    """One arm: `tokens` of the rounds whose result implied it, `ms` of the rounds that it drafted itself."""

    def __init__(self) -> None:
        self.tokens = Mean()
        self.ms = Mean()

    @property
    def pulls(self) -> int:
        return self.ms.count

    @property
    def rate(self) -> float:
        """Tokens per millisecond: the ratio of sums, if only its own rounds implied its tokens."""
        return self.tokens.mean / self.ms.mean


class Policy(ABC):
    """`implied[j]` are the arms whose tokens the result of arm j implies, j among them. Fixed before any round."""

    def __init__(self, implied: Sequence[Sequence[int]]) -> None:
        self.implied = implied
        self.arms = [ArmStatistics() for _ in implied]
        self.probability: float | None = None  # with which the last arm was drawn, if it was drawn at random

    def choose(self, uniforms: Sequence[float]) -> int:
        """The next arm. `uniforms`: one for each arm, and one more."""
        self.probability = None
        untried = next((i for i, arm in enumerate(self.arms) if not arm.pulls), None)
        return self._best(uniforms) if untried is None else untried

    @abstractmethod
    def _best(self, uniforms: Sequence[float]) -> int:
        """The next arm, once each has been pulled."""

    def observe(self, pulled: int, tokens: Sequence[float], ms: float) -> None:
        """Adds a round: `tokens[k]` are the tokens of arm `implied[pulled][k]`, actual or implied; `ms` is its time."""
        self.arms[pulled].ms.add(ms)
        for arm, got in zip(self.implied[pulled], tokens, strict=True):
            self.arms[arm].tokens.add(got)

    def believed(self, arm: ArmStatistics, more: float, longer: float) -> float:
        """An arm's rate with its tokens `more` and its time `longer` standard errors above their means, but no time
        below the least mean.

        One slow round, such as the first of a run, must not rule out an arm for good: hence the large `MS_SHARE`.
        """
        tokens = arm.tokens.mean + more * arm.tokens.error(TOKENS_SD)
        ms = arm.ms.mean + longer * arm.ms.error(MS_SHARE * arm.ms.mean)
        return tokens / max(ms, min(arm.ms.mean for arm in self.arms))


class Ucb(Policy):
    """The arm with the highest rate at sqrt(2 ln t) standard errors more tokens and less time."""

    def _best(self, uniforms: Sequence[float]) -> int:
        width = math.sqrt(2 * math.log(sum(arm.pulls for arm in self.arms)))
        return _largest([self.believed(arm, width, -width) for arm in self.arms])


class Thompson(Policy):
    """The best arm in one draw from normal distributions around both means of each."""

    def _best(self, uniforms: Sequence[float]) -> int:
        return _largest([self._drawn(arm, uniform) for arm, uniform in zip(self.arms, uniforms, strict=False)])

    def _drawn(self, arm: ArmStatistics, uniform: float) -> float:
        """One uniform gives both normal draws: its leading bits that of the tokens, the others that of the time."""
        first, second = divmod(uniform * 2**26, 1.0)
        return self.believed(arm, _normal((first + 0.5) / 2**26), _normal(second))


class Exp3(Policy):
    """Draws arms with weights that fall with each arm's loss. It assumes nothing about the rounds.

    A round's gain is tokens - r ms, with r all tokens so far over all time so far: the advantage over continuing as
    before, whose sum is largest where the ratio of sums is. A loss is (1 - gain / largest gain) / 2, divided by the
    probability that it becomes known.
    """

    def __init__(self, implied: Sequence[Sequence[int]]) -> None:
        super().__init__(implied)
        self._losses = [0.0] * len(implied)
        self._drawn_from: list[float] | None = None  # the distribution of the last arm; None at the first pulls
        self._variance = 0.0  # of the estimates so far; it sets the learning rate
        self._scale = 0.0  # the largest gain or loss so far, in tokens
        self._tokens = self._ms = 0.0

    def choose(self, uniforms: Sequence[float]) -> int:
        self._drawn_from = None
        return super().choose(uniforms)

    def _best(self, uniforms: Sequence[float]) -> int:
        distribution = self._drawn_from = self._distribution()
        left, chosen = uniforms[-1], 0
        while chosen < len(distribution) - 1 and left >= distribution[chosen]:
            left -= distribution[chosen]
            chosen += 1
        self.probability = distribution[chosen]
        return chosen

    def observe(self, pulled: int, tokens: Sequence[float], ms: float) -> None:
        super().observe(pulled, tokens, ms)
        implied = self.implied[pulled]
        self._tokens += tokens[implied.index(pulled)]
        self._ms += ms
        if self._drawn_from is None:
            return
        rate = self._tokens / self._ms
        gains = [
            got - rate * (ms if arm == pulled else self.arms[arm].ms.mean)
            for arm, got in zip(implied, tokens, strict=True)
        ]
        self._scale = max(self._scale, *(abs(gain) for gain in gains), 1e-9)
        distribution = list(zip(self._drawn_from, self.implied, strict=True))
        known = [sum(p for p, arms in distribution if i in arms) for i in range(len(distribution))]
        for arm, gain in zip(implied, gains, strict=True):
            self._losses[arm] += (1 - gain / self._scale) / 2 / known[arm]
        self._variance += sum(p / q for p, q in zip(self._drawn_from, known, strict=True) if p)

    def _distribution(self) -> list[float]:
        speed = math.sqrt(math.log(len(self._losses)) / (1 + self._variance)) if len(self._losses) > 1 else 0.0
        least = min(self._losses)
        weights = [math.exp(-speed * (loss - least)) for loss in self._losses]
        return [weight / sum(weights) for weight in weights]


POLICIES: dict[str, type[Policy]] = {"ucb": Ucb, "exp3": Exp3, "thompson": Thompson}


def _largest(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)


def _normal(uniform: float) -> float:
    return NormalDist().inv_cdf(min(max(uniform, 1e-12), 1 - 1e-12))
