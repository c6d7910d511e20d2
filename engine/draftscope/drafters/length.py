"""How many tokens a chain drafts: decided while it is drafted, from what was drawn so far and how rounds went before.

A length chosen so changes no distribution: `tests/test_rules.py` enumerates chains whose length depends on the tokens
already drawn, under token-wise and block verification. (Dropping a token after it was drawn would; nothing here does.)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from draftscope.drafters.options import LengthOptions

Entropies = Callable[
    [], Sequence[float]
]  # of the distributions that each sequence's token was drawn from, if anyone asks

BINS = 8  # of the probability that the draft gave a token it drafted
MEMORY = 200.0  # verified tokens after which older ones fade, so that an estimate follows the text
PRIOR = 0.7, 2.0  # acceptance believed before anything was seen, and how many tokens that belief weighs
WORTH = 1.05  # what a draft must be expected to win over none: less is lost again where sequences end apart
LOOK_AGAIN, SELDOM = 24, 96  # every so many rounds one is drafted all the same, or no estimate would ever change again


class Length(ABC):
    """One sequence's rule. In each round: `begin`, then `goes_on` after every drafted token, then `observe`."""

    def begin(self) -> bool:
        """Is anything drafted in this round?"""
        return True

    @abstractmethod
    def goes_on(self, q: float, entropy: float) -> bool:
        """A token was drafted that the draft gave probability `q`, from a distribution of `entropy` nats: one more?"""

    def observe(self, accepted: int) -> None:  # noqa: B027 - some rules do not learn
        """So many of the tokens drafted in this round were accepted."""


class Confidence(Length):
    """Stops behind a token that the draft gave less than `threshold`, as transformers' assistant does."""

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold

    def goes_on(self, q: float, entropy: float) -> bool:
        return q >= self._threshold


class Entropy(Length):
    """AdaEDL (2410.18351): stops behind a token from a distribution so flat that acceptance is no longer warranted.

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


class Learning:
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


class Whole(Learning, Length):
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


class Expecting(Learning):
    """Learns besides what to expect of tokens not drafted yet: as many stand as of all that were verified so far."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead = _Rate()
        self.stands = self.expected = 1.0  # that all drafted so far stand; tokens of the round if no more are drafted

    def begin(self) -> bool:
        self.stands = self.expected = 1.0
        return super().begin()

    def drew(self, q: float) -> None:
        """A token was drafted that the draft gave probability `q`."""
        self.stands *= self.chance(q)
        self.expected += self.stands

    def observe(self, accepted: int) -> None:
        super().observe(accepted)
        for position in range(len(self._drafted[: accepted + 1])):
            self.ahead.add(position < accepted)


class Lengths(ABC):
    """The rules of a batch. In each round: `begin`, then `go_on` after every drafted level, then `observe`."""

    @abstractmethod
    def begin(self) -> list[bool]:
        """For which sequences anything is drafted in this round."""

    @abstractmethod
    def go_on(self, going: list[bool], q: Sequence[float], entropy: Entropies) -> list[bool]:
        """Which of those that were `going` draft one token more, behind one of probability q from a distribution of
        entropy."""

    @abstractmethod
    def observe(self, accepted: Sequence[int]) -> None:
        """So many of the tokens drafted in this round were accepted."""

    @abstractmethod
    def select_rows(self, rows: list[int]) -> None:
        """The others have ended: only `rows` of the batch go on."""


class Each(Lengths):
    """Every sequence by a rule of its own."""

    def __init__(self, rules: Sequence[Length]) -> None:
        self._rules = rules

    def begin(self) -> list[bool]:
        return [rule.begin() for rule in self._rules]

    def go_on(self, going: list[bool], q: Sequence[float], entropy: Entropies) -> list[bool]:
        each = zip(going, self._rules, q, entropy(), strict=True)
        return [more and rule.goes_on(likely, flat) for more, rule, likely, flat in each]

    def observe(self, accepted: Sequence[int]) -> None:
        for rule, count in zip(self._rules, accepted, strict=True):
            rule.observe(count)

    def select_rows(self, rows: list[int]) -> None:
        self._rules = [self._rules[row] for row in rows]


class Cost(Lengths):
    """Drafts one token more where that raises the tokens expected for the time expected, on calibrated costs.

    With g tokens drafted that stand with probabilities s_1 .. s_g, a round is expected to emit T(g) = 1 + s_1 + .. +
    s_g tokens in `cost(g)` plain rounds. One more pays iff s_{g+1} > S(g) (c + dv), S = T / cost. As the cost of a
    forward rises in steps, the tokens after it are looked at too: it goes on iff some length ahead has a larger S.

    A draft forward is one for all sequences of a batch, so they go on together or not at all: T is their sum. One alone
    would make all pay. (So above temperature 0 a sequence's tokens depend on its neighbours'; its distribution does
    not.)
    """

    def __init__(self, cost: Callable[[int, int], float], most: int, batch: int) -> None:
        self._cost = cost
        self._costs = [cost(gamma, batch) for gamma in range(most + 1)]
        self._rows = [Expecting() for _ in range(batch)]
        self._drafted = 0
        self._rounds = 0
        self._wait = LOOK_AGAIN  # twice as long after every look in vain

    def begin(self) -> list[bool]:
        for row in self._rows:
            row.begin()
        self._drafted = 0
        self._rounds += 1
        pays = self._pays(WORTH)
        looks = not pays and self._rounds % self._wait == 0
        if pays or looks:
            self._wait = LOOK_AGAIN if pays else min(2 * self._wait, SELDOM)
        return [pays or looks] * len(self._rows)

    def go_on(self, going: list[bool], q: Sequence[float], entropy: Entropies) -> list[bool]:
        for row, likely in zip(self._rows, q, strict=True):
            row.drew(likely)
        self._drafted += 1
        return [self._pays()] * len(self._rows)

    def observe(self, accepted: Sequence[int]) -> None:
        for row, count in zip(self._rows, accepted, strict=True):
            row.observe(count)

    def select_rows(self, rows: list[int]) -> None:
        self._rows = [self._rows[row] for row in rows]
        self._costs = [self._cost(gamma, len(rows)) for gamma in range(len(self._costs))]

    def _pays(self, worth: float = 1.0) -> bool:
        """Does some longer draft expect `worth` times as many tokens for its cost as what stands now, or more?"""
        stands, expected = [row.stands for row in self._rows], sum(row.expected for row in self._rows)
        now = expected / self._costs[self._drafted]
        for cost in self._costs[self._drafted + 1 :]:
            stands = [own * row.ahead.value for own, row in zip(stands, self._rows, strict=True)]
            expected += sum(stands)
            if expected / cost > worth * now:
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


def lengths_of(options: LengthOptions, cost: Callable[[int, int], float], most: int, batch: int) -> Lengths | None:
    """The rules that the options name; None where every chain has its full length `most`.

    `cost(gamma, batch)` is a round's cost in plain rounds, asked only where it is used.
    """
    if options.draft_length == "fixed":
        return None
    if options.draft_length == "cost":
        return Cost(cost, most, batch)
    rules: dict[str, Callable[[], Length]] = {
        "confidence": lambda: Confidence(options.confidence),
        "heuristic": lambda: Heuristic(most),
        "specdec++": lambda: Whole(options.confidence),
        "adaedl": lambda: Entropy(options.confidence),
    }
    return Each([rules[options.draft_length]() for _ in range(batch)])
