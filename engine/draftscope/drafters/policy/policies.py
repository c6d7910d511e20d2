"""Which arm next? Policies over arms whose reward is tokens over seconds, taken as a ratio of sums.

A mean of single rounds' rates would weigh a short round like a long one; what counts is all tokens over all time. So
every arm has two means, tokens and milliseconds of a round, each with its own uncertainty: a result may tell the
tokens of arms that were not pulled, while a time can only be measured. Until each arm was pulled once, they are pulled
in order. A policy knows numbers only: no tensors, no text.

UCB1: Auer, Cesa-Bianchi, Fischer 2002. Thompson sampling: Thompson 1933. Exp3 with side observations: Alon et al.
1409.8428. As policies over drafts: BanditSpec 2505.15141, TapOut 2511.02017; full information: 2510.20064.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from statistics import NormalDist

TOKENS_SD = 1.0  # believed spread of a round's tokens before any was seen; weighs one round
MS_SHARE = 0.3  # believed spread of a round's time, as a share of its mean; weighs one round


class Mean:
    """A mean that grows, and its standard error, given the `spread` that is believed before anything is seen."""

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self._squares = 0.0  # sum of squared distances to the mean

    def add(self, value: float) -> None:
        self.count += 1
        off = value - self.mean
        self.mean += off / self.count
        self._squares += off * (value - self.mean)

    def error(self, spread: float) -> float:
        return math.sqrt((self._squares + spread**2) / (self.count * self.count)) if self.count else math.inf


class Seen:
    """One arm: `tokens` of the rounds whose result told it, `ms` of the rounds that it drafted itself."""

    def __init__(self) -> None:
        self.tokens = Mean()
        self.ms = Mean()

    @property
    def pulls(self) -> int:
        return self.ms.count

    @property
    def rate(self) -> float:
        """Tokens a millisecond; the ratio of sums wherever only its own rounds told it."""
        return self.tokens.mean / self.ms.mean


class Policy(ABC):
    """`tells[j]` are the arms whose tokens the result on arm j tells, j itself among them: known before any round."""

    def __init__(self, tells: Sequence[Sequence[int]]) -> None:
        self.tells = tells
        self.arms = [Seen() for _ in tells]
        self.probability: float | None = None  # with which the last arm was drawn, where it was drawn by lot

    def choose(self, uniforms: Sequence[float]) -> int:
        """The next arm. `uniforms`: a fresh uniform draw for each arm and one more."""
        self.probability = None
        untried = next((i for i, arm in enumerate(self.arms) if not arm.pulls), None)
        return self._best(uniforms) if untried is None else untried

    @abstractmethod
    def _best(self, uniforms: Sequence[float]) -> int:
        """The next arm, when each was pulled before."""

    def observe(self, pulled: int, tokens: Sequence[float], ms: float) -> None:
        """A round is over: `tokens[k]` is what arm `tells[pulled][k]` got, or would have got; `ms` the round's time."""
        self.arms[pulled].ms.add(ms)
        for arm, got in zip(self.tells[pulled], tokens, strict=True):
            self.arms[arm].tokens.add(got)

    def believed(self, arm: Seen, more: float, longer: float) -> float:
        """An arm's rate with its tokens `more`, its time `longer` standard errors off; no time below the least mean.

        One slow round, the first of a run for one, must not put an arm away for good: hence the wide `MS_SHARE`.
        """
        tokens = arm.tokens.mean + more * arm.tokens.error(TOKENS_SD)
        ms = arm.ms.mean + longer * arm.ms.error(MS_SHARE * arm.ms.mean)
        return tokens / max(ms, min(each.ms.mean for each in self.arms))


class Ucb(Policy):
    """The arm that could be the best: tokens as many, and time as little, as sqrt(2 ln t) standard errors allow."""

    def _best(self, uniforms: Sequence[float]) -> int:
        width = math.sqrt(2 * math.log(sum(arm.pulls for arm in self.arms)))
        return _largest([self.believed(arm, width, -width) for arm in self.arms])


class Thompson(Policy):
    """The arm that is the best in one draw from what is believed of each: normal around both means."""

    def _best(self, uniforms: Sequence[float]) -> int:
        return _largest([self._drawn(arm, uniform) for arm, uniform in zip(self.arms, uniforms, strict=False)])

    def _drawn(self, arm: Seen, uniform: float) -> float:
        """One uniform makes both normals: its leading half the tokens', what is left the time's."""
        first, second = divmod(uniform * 2**26, 1.0)
        return self.believed(arm, _normal((first + 0.5) / 2**26), _normal(second))


class Exp3(Policy):
    """Draws by weights that shrink with each arm's loss, whatever the text does: nothing is assumed of the rounds.

    A round's gain is tokens - r ms, with r all tokens so far over all time so far: what an arm wins against going on as
    before, whose sum is largest where the ratio of sums is. Losses are its mirror in [0, 1], over the probability with
    which they come to be known.
    """

    def __init__(self, tells: Sequence[Sequence[int]]) -> None:
        super().__init__(tells)
        self._losses = [0.0] * len(tells)
        self._distributions: list[float] | None = (
            None  # the distribution that the last arm was drawn from; none while arms are tried
        )
        self._variance = 0.0  # of the estimates so far, which sets how fast is learnt
        self._scale = 0.0  # the largest gain or loss so far, in tokens
        self._tokens = self._ms = 0.0

    def choose(self, uniforms: Sequence[float]) -> int:
        self._distributions = None
        return super().choose(uniforms)

    def _best(self, uniforms: Sequence[float]) -> int:
        distribution = self._distributions = self._distribution()
        left, chosen = uniforms[-1], 0
        while chosen < len(distribution) - 1 and left >= distribution[chosen]:
            left -= distribution[chosen]
            chosen += 1
        self.probability = distribution[chosen]
        return chosen

    def observe(self, pulled: int, tokens: Sequence[float], ms: float) -> None:
        super().observe(pulled, tokens, ms)
        told = self.tells[pulled]
        self._tokens += tokens[told.index(pulled)]
        self._ms += ms
        if self._distributions is None:
            return
        rate = self._tokens / self._ms
        gains = [
            got - rate * (ms if arm == pulled else self.arms[arm].ms.mean)
            for arm, got in zip(told, tokens, strict=True)
        ]
        self._scale = max(self._scale, *(abs(gain) for gain in gains), 1e-9)
        distribution = list(zip(self._distributions, self.tells, strict=True))
        known = [sum(p for p, told in distribution if i in told) for i in range(len(distribution))]
        for arm, gain in zip(told, gains, strict=True):
            self._losses[arm] += (1 - gain / self._scale) / 2 / known[arm]
        self._variance += sum(p / q for p, q in zip(self._distributions, known, strict=True) if p)

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
