"""How many tokens a chain drafts: decided while it is drafted, from what was drawn so far and how rounds went before.

A length chosen so changes no law: `tests/test_rules.py` enumerates chains whose length depends on the tokens already
drawn, under token-wise and block verification. (Dropping a token after it was drawn would; nothing here does.)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

from draftscope.settings import Settings

BINS = 8  # of the probability that the draft gave a token it drafted
MEMORY = 200.0  # judged tokens after which older ones fade, so that an estimate follows the text
PRIOR = 0.7, 4.0  # acceptance believed before anything was seen, and how many tokens that belief weighs
LOOK_AGAIN = 24  # rounds without a draft after which one is drafted, or no estimate would ever change again


class Length(ABC):
    """One sequence's rule. In each round: `begin`, then `goes_on` after every drafted token, then `observe`."""

    def begin(self) -> bool:
        """Is anything drafted in this round?"""
        return True

    @abstractmethod
    def goes_on(self, q: float, entropy: float) -> bool:
        """A token was drafted that the draft gave probability `q`, from a law of `entropy` nats: one more?"""

    def observe(self, accepted: int) -> None:  # noqa: B027 - some rules do not learn
        """So many of the tokens drafted in this round were accepted."""


class Confidence(Length):
    """Stops behind a token that the draft gave less than `threshold`, as transformers' assistant does."""

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold

    def goes_on(self, q: float, entropy: float) -> bool:
        return q >= self._threshold


class Entropy(Length):
    """AdaEDL (2410.18351): stops behind a token from a law so flat that acceptance is no longer warranted.

    Acceptance is 1 - TV(p, q), at least 1 - sqrt(KL / 2) by Pinsker's inequality; as p is not known yet, `SHARE` of the
    draft's entropy stands for the half of KL. (The paper also moves its threshold while decoding; this one stays.)
    """

    SHARE = 0.2

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold

    def goes_on(self, q: float, entropy: float) -> bool:
        return 1 - math.sqrt(self.SHARE * max(entropy, 0.0)) >= self._threshold


class Heuristic(Length):
    """Two tokens more after a draft that stood as a whole, one less after any other: transformers' schedule."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._length = min(5, most)
        self._drafted = 0

    def begin(self) -> bool:
        self._drafted = 0
        return True

    def goes_on(self, q: float, entropy: float) -> bool:
        self._drafted += 1
        return self._drafted < self._length

    def observe(self, accepted: int) -> None:
        if self._drafted:
            step = 2 if accepted == self._drafted else -1
            self._length = min(max(self._length + step, 1), self._most)


class Learning(Length):
    """Learns how often a drafted token stands, by how likely the draft held it."""

    def __init__(self) -> None:
        self._by_q = [_Rate() for _ in range(BINS)]
        self._drafted: list[int] = []  # the bin of each token of this round

    def begin(self) -> bool:
        self._drafted = []
        return True

    def chance(self, q: float) -> float:
        """How likely the token stands that was just drafted with probability `q`, if those before it do."""
        place = min(int(q * BINS), BINS - 1)
        self._drafted.append(place)
        return self._by_q[place].value

    def observe(self, accepted: int) -> None:
        for position, place in enumerate(self._drafted[: accepted + 1]):
            self._by_q[place].add(position < accepted)


class Whole(Learning):
    """Stops where the whole draft is unlikely to stand: SpecDec++ (2405.19715), 1 - prod a_i > h, h = 1 - threshold.

    The paper trains a head on the draft model to say a_i; here it is learnt while decoding.
    """

    def __init__(self, threshold: float) -> None:
        super().__init__()
        self._threshold = threshold
        self._stands = 1.0

    def begin(self) -> bool:
        self._stands = 1.0
        return super().begin()

    def goes_on(self, q: float, entropy: float) -> bool:
        self._stands *= self.chance(q)
        return self._stands >= self._threshold


class Cost(Learning):
    """Drafts one token more where that raises the tokens expected for the time expected, on calibrated costs.

    With g tokens drafted that stand with probabilities s_1 .. s_g, a round is expected to emit T(g) = 1 + s_1 + .. +
    s_g tokens in `cost(g)` plain rounds. One more pays iff s_{g+1} > S(g) (c + dv), S = T / cost. As the cost of a
    forward rises in steps, the tokens after it are looked at too: it goes on iff some length ahead has a larger S.
    Of a drafted token s is learnt by how likely the draft held it; of the next, from all tokens judged so far.
    """

    def __init__(self, cost: Callable[[int], float], most: int) -> None:
        super().__init__()
        self._costs = [cost(gamma) for gamma in range(most + 1)]
        self._any = _Rate()
        self._stands = self._expected = 1.0
        self._idle = 0

    def begin(self) -> bool:
        super().begin()
        self._stands, self._expected = 1.0, 1.0
        if self._pays():
            self._idle = 0
            return True
        self._idle = (self._idle + 1) % LOOK_AGAIN
        return self._idle == 0

    def goes_on(self, q: float, entropy: float) -> bool:
        self._stands *= self.chance(q)
        self._expected += self._stands
        return self._pays()

    def observe(self, accepted: int) -> None:
        super().observe(accepted)
        for position in range(len(self._drafted[: accepted + 1])):
            self._any.add(position < accepted)

    def _pays(self) -> bool:
        """Does some longer draft expect more tokens for its cost than what stands now?"""
        drafted = len(self._drafted)
        now = self._expected / self._costs[drafted]
        stands, expected = self._stands, self._expected
        for cost in self._costs[drafted + 1 :]:
            stands *= self._any.value
            expected += stands
            if expected / cost > now:
                return True
        return False


class _Rate:
    """A share that forgets."""

    def __init__(self) -> None:
        self._hits, self._of = PRIOR[0] * PRIOR[1], PRIOR[1]

    @property
    def value(self) -> float:
        return self._hits / self._of

    def add(self, hit: bool) -> None:
        fade = min(1.0, MEMORY / (self._of + 1))
        self._hits, self._of = self._hits * fade + hit, self._of * fade + 1


def lengths_of(settings: Settings, cost: Callable[[int], float], most: int, batch: int) -> list[Length]:
    """A rule for each sequence, as the settings name it; none where every chain has its full length `most`.

    `cost(gamma)` is a round's cost in plain rounds, asked only where it is used.
    """
    rules: dict[str, Callable[[], Length]] = {
        "cost": lambda: Cost(cost, most),
        "confidence": lambda: Confidence(settings.confidence),
        "heuristic": lambda: Heuristic(most),
        "specdec++": lambda: Whole(settings.confidence),
        "adaedl": lambda: Entropy(settings.confidence),
    }
    return [rules[settings.draft_length]() for _ in range(batch)] if settings.draft_length in rules else []
