"""How many tokens a chain drafts: decided while it is drafted, from the tokens drawn so far and from earlier rounds.

Such a length does not change the output's distribution: `tests/verify/test_rules.py` enumerates chains whose length
depends on the tokens already drawn, under token-wise and block verification. (Dropping a token after it was drawn would
change it; nothing here does that.)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from draftscope.drafters.options import LengthOptions

Entropies = Callable[[], Sequence[float]]  # of each sequence's last draft distribution; computed only when called

BINS = 8  # of the draft's probability of the token that it drafted
MEMORY = 200.0  # verified tokens that an estimate remembers, so that it follows the text
PRIOR = 0.7, 8.0  # initial estimate of the acceptance rate, and its weight in tokens
WORTH = 1.05  # speedup that must be expected before drafting: less is lost when sequences of a batch end apart
RETRY_AFTER, MAX_RETRY_AFTER = 24, 96  # rounds without a draft after which one is made, or estimates would never change


class Length(ABC):
    """One sequence's rule. In each round: `begin`, then `should_continue` after every drafted token, then `observe`.

    `should_continue` gets an entropy of 0 unless the rule `reads_entropy`, which the device would have to compute.
    """

    reads_entropy = False

    def begin(self) -> bool:
        """Whether anything is drafted in this round."""
        return True

    @abstractmethod
    def should_continue(self, q: float, entropy: float) -> bool:
        """Whether to draft one more token. The last one had probability `q` in a distribution of `entropy` nats."""

    def observe(self, accepted: int) -> None:  # noqa: B027 - some rules do not learn
        """Receives the number of this round's drafted tokens that were accepted."""


class Confidence(Length):
    """Stops after a token with a draft probability below `threshold`, as transformers' assistant does."""

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold

    def should_continue(self, q: float, entropy: float) -> bool:
        return q >= self._threshold


class Entropy(Length):
    """AdaEDL (2410.18351): stops after a token from a distribution that is too flat for acceptance to be likely.

    The acceptance probability is 1 - TV(p, q), at least 1 - sqrt(KL / 2) by Pinsker's inequality. As p is unknown,
    KL / 2 is estimated as `SHARE` of the draft's entropy. (The paper also adapts its threshold; this one is constant.)
    """

    SHARE = 0.2
    reads_entropy = True

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold

    def should_continue(self, q: float, entropy: float) -> bool:
        return 1 - math.sqrt(self.SHARE * max(entropy, 0.0)) >= self._threshold


class Heuristic(Length):
    """Two tokens more after a draft that was accepted in full, one less otherwise: transformers' schedule."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._length = min(5, most)
        self._drafted = 0

    def begin(self) -> bool:
        self._drafted = 0
        return True

    def should_continue(self, q: float, entropy: float) -> bool:
        self._drafted += 1
        return self._drafted < self._length

    def observe(self, accepted: int) -> None:
        if self._drafted:
            step = 2 if accepted == self._drafted else -1
            self._length = min(max(self._length + step, 1), self._most)


class Learning:
    """Estimates how often drafted tokens are accepted, by their draft probability."""

    def __init__(self) -> None:
        self._by_q = [Rate() for _ in range(BINS)]
        self._drafted: list[int] = []  # the bin of each token of this round

    def begin(self) -> bool:
        self._drafted = []
        return True

    def chance(self, q: float) -> float:
        """The estimated acceptance of the token just drafted with probability `q`, if all before it are accepted."""
        place = min(int(q * BINS), BINS - 1)
        self._drafted.append(place)
        return self._by_q[place].value

    def observe(self, accepted: int) -> None:
        for position, place in enumerate(self._drafted[: accepted + 1]):
            self._by_q[place].add(position < accepted)


class WholeDraft(Learning, Length):
    """SpecDec++ (2405.19715): stops when the whole draft is unlikely to be accepted, 1 - prod a_i > 1 - threshold.

    The paper trains a head on the draft model that predicts a_i; here it is estimated while decoding.
    """

    def __init__(self, threshold: float) -> None:
        super().__init__()
        self._threshold = threshold
        self._accepted = 1.0

    def begin(self) -> bool:
        self._accepted = 1.0
        return super().begin()

    def should_continue(self, q: float, entropy: float) -> bool:
        self._accepted *= self.chance(q)
        return self._accepted >= self._threshold


class Expecting(Learning):
    """Also estimates the acceptance rate of tokens not drafted yet: the rate of all verified tokens so far."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead = Rate()  # of tokens not drafted yet
        self.accepted = self.expected = 1.0  # probability that all so far are; tokens of the round if drafting stops

    def begin(self) -> bool:
        self.accepted = self.expected = 1.0
        return super().begin()

    def drew(self, q: float) -> None:
        """Receives the draft probability `q` of the token just drafted."""
        self.accepted *= self.chance(q)
        self.expected += self.accepted

    def observe(self, accepted: int) -> None:
        super().observe(accepted)
        for position in range(len(self._drafted[: accepted + 1])):
            self.ahead.add(position < accepted)


class Lengths(ABC):
    """The rules of a batch. In each round: `begin`, then `go_on` after every drafted position, then `observe`."""

    @abstractmethod
    def begin(self) -> list[bool]:
        """Which sequences draft anything in this round."""

    @abstractmethod
    def go_on(self, going: list[bool], q: Sequence[float], entropy: Entropies) -> list[bool]:
        """Which of the sequences that are still `going` draft one more token, after one with draft probability `q` from
        a distribution of that `entropy`."""

    @abstractmethod
    def observe(self, accepted: Sequence[int]) -> None:
        """Receives each sequence's number of accepted tokens in this round."""

    @abstractmethod
    def select_rows(self, rows: list[int]) -> None:
        """Keeps only `rows` of the batch; the other sequences have ended."""


class PerSequence(Lengths):
    """A separate rule for every sequence."""

    def __init__(self, rules: Sequence[Length]) -> None:
        self._rules = rules

    def begin(self) -> list[bool]:
        return [rule.begin() for rule in self._rules]

    def go_on(self, going: list[bool], q: Sequence[float], entropy: Entropies) -> list[bool]:
        flat = entropy() if any(rule.reads_entropy for rule in self._rules) else [0.0] * len(q)
        sequences = zip(going, self._rules, q, flat, strict=True)
        return [more and rule.should_continue(likely, nats) for more, rule, likely, nats in sequences]

    def observe(self, accepted: Sequence[int]) -> None:
        for rule, count in zip(self._rules, accepted, strict=True):
            rule.observe(count)

    def select_rows(self, rows: list[int]) -> None:
        self._rules = [self._rules[row] for row in rows]


class Cost(Lengths):
    """Drafts one more token if that raises the expected tokens per expected time, with calibrated costs.

    If the first i of g drafted tokens are all accepted with probability s_i, a round is expected to emit T(g) = 1 + s_1
    + .. + s_g tokens in the time of `cost(g)` plain rounds. One more token pays iff s_{g+1} > S(g) (c + dv), S = T /
    cost. As the cost of a forward rises in steps, longer drafts are considered too: it goes on iff some greater length
    has a larger S.

    One draft forward serves all sequences of a batch, so they all go on or all stop: T is their sum. (So above
    temperature 0 a sequence's tokens depend on its neighbours' tokens; its distribution does not.)
    """

    def __init__(self, cost: Callable[[int, int], float], most: int, batch: int) -> None:
        self._cost = cost
        self._costs = [cost(gamma, batch) for gamma in range(most + 1)]
        self._rows = [Expecting() for _ in range(batch)]
        self._drafted = 0
        self._rounds = 0
        self._wait = RETRY_AFTER  # doubles after every such draft that did not pay

    def begin(self) -> list[bool]:
        for row in self._rows:
            row.begin()
        self._drafted = 0
        self._rounds += 1
        pays = self._pays(WORTH)
        looks = not pays and self._rounds % self._wait == 0
        if pays or looks:
            self._wait = RETRY_AFTER if pays else min(2 * self._wait, MAX_RETRY_AFTER)
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
        """Whether some longer draft is expected to emit more than `worth` times as many tokens for its cost."""
        accepted, expected = [row.accepted for row in self._rows], sum(row.expected for row in self._rows)
        now = expected / self._costs[self._drafted]
        for cost in self._costs[self._drafted + 1 :]:
            accepted = [reached * row.ahead.value for reached, row in zip(accepted, self._rows, strict=True)]
            expected += sum(accepted)
            if expected / cost > worth * now:
                return True
        return False


class Rate:
    """A rate over the last observations; older ones count less and less."""

    def __init__(self, first: float = PRIOR[0], weight: float = PRIOR[1]) -> None:
        self._hits, self._of = first * weight, weight

    @property
    def value(self) -> float:
        return self._hits / self._of

    def add(self, hit: bool) -> None:
        fade = min(1.0, MEMORY / (self._of + 1))
        self._hits, self._of = self._hits * fade + hit, self._of * fade + 1


def lengths_of(options: LengthOptions, cost: Callable[[int, int], float], most: int, batch: int) -> Lengths | None:
    """The rules that the options name; None if every chain has the full length `most`.

    `cost(gamma, batch)` is a round's cost in plain rounds; it is called only by the rule that needs it.
    """
    if options.draft_length == "fixed":
        return None
    if options.draft_length == "cost":
        return Cost(cost, most, batch)
    rules: dict[str, Callable[[], Length]] = {
        "confidence": lambda: Confidence(options.confidence),
        "heuristic": lambda: Heuristic(most),
        "specdec++": lambda: WholeDraft(options.confidence),
        "adaedl": lambda: Entropy(options.confidence),
    }
    return PerSequence([rules[options.draft_length]() for _ in range(batch)])
