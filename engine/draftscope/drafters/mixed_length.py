"""Which of a chain's tokens a head guesses and which are copied from the text, and where the chain ends.

If the chain's tokens are all accepted with probabilities s_1, s_2, ..., a round is expected to emit T = 1 + s_1 + s_2 +
... tokens, in a time that calibration knows. Before each guess, the chain that follows is the one with the largest T a
plain round's time: stop here, guess more, or copy from here on. Acceptance is estimated while decoding: of guesses by
the head's probability of them, of copies by how many tokens before them occurred earlier in the text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from draftscope.drafters.length import MAX_RETRY_AFTER, RETRY_AFTER, WORTH, Expecting, Rate
from draftscope.drafters.lookup.suffix import SuffixIndex

MATCHES = (1, 2, 3, 5, 8)  # matched tokens at which another estimate begins
FIRST_GUESS = (0.15, 0.3, 0.45, 0.6, 0.8)  # of the acceptance of what follows such a match
FIRST_WEIGHT = 2.0  # of that guess, in tokens


class MixedCosts:
    """What a round costs in rounds of plain decoding."""

    def __init__(self, cost: Callable[[str, int, int], float], head: str, copying: str, most: int, batch: int) -> None:
        self._cost, self._head, self._copying, self._most = cost, head, copying, most
        self.of_batch(batch)

    def of_batch(self, batch: int) -> None:
        """From now on of that many sequences."""
        self._guessed = [self._cost(self._head, count, batch) for count in range(self._most + 1)]
        self._copied = [self._cost(self._copying, count, batch) for count in range(self._most + 1)]

    def of(self, guesses: int, copies: int) -> float:
        """The cost of a round with so many guessed and then so many copied tokens."""
        return self._guessed[guesses] + self._copied[guesses + copies] - self._copied[guesses]


class MixedChain:
    """One sequence's chain. In each round: `begin`, then `guessed` while `guesses_on`, then `observe`."""

    def __init__(self, costs: MixedCosts) -> None:
        self._costs = costs
        self.guesses: list[int] = []
        self.copied: list[tuple[int, int]] = []  # token, and how many tokens before it were matched
        self.guesses_on = False
        self._index = SuffixIndex()
        self._guessing = Expecting()
        self._copying = [Rate(value, FIRST_WEIGHT) for value in FIRST_GUESS]
        self._limit = self._idle = 0
        self._wait = RETRY_AFTER  # idle rounds before a draft that is not expected to pay; doubles where it did not

    @property
    def tokens(self) -> list[int]:
        return [*self.guesses, *(token for token, _ in self.copied)]

    def begin(self, text: Sequence[int], limit: int) -> None:
        """Chooses what to draft after `text`, which only grows, at most `limit` tokens; perhaps nothing."""
        self._index.read(text)
        self._guessing.begin()
        self.guesses, self.copied, self._limit = [], [], limit
        self._choose(WORTH)
        if self.guesses_on or self.copied:
            self._idle, self._wait = 0, RETRY_AFTER
            return
        self._idle += 1
        if self._idle >= self._wait:
            self._idle, self._wait = 0, min(2 * self._wait, MAX_RETRY_AFTER)
            self._choose(0.0)

    def guessed(self, token: int, q: float) -> None:
        """Receives the token that the head guessed with probability `q`; chooses what follows it."""
        self.guesses.append(token)
        self._guessing.drew(q)
        self._choose(1.0)

    def observe(self, accepted: int) -> None:
        """Receives how many tokens of the chain were accepted."""
        self._guessing.observe(accepted)
        beyond = accepted - len(self.guesses)
        for place, (_, match) in enumerate(self.copied[: max(0, beyond + 1)]):
            self._copying[_kind(match)].add(place < beyond)

    def origin(self, nodes: int) -> tuple[str, ...]:
        """How each of so many nodes was drafted."""
        said = [f"eagle3 step {depth}" for depth in range(1, len(self.guesses) + 1)]
        said += [f"copied, {match} matched" for _, match in self.copied]
        return (*said, *["padding"] * (nodes - len(said)))

    def _choose(self, worth: float) -> None:
        """Guesses on or copies if that is expected to emit more than `worth` times as many tokens for its cost."""
        already, chance, emitted = len(self.guesses), self._guessing.accepted, self._guessing.expected
        best = worth * emitted / self._costs.of(already, 0)
        self.guesses_on = False
        guess, copy = chance, chance
        with_guesses = with_copies = emitted
        for count in range(1, self._limit - already + 1):
            guess *= self._guessing.ahead.value
            with_guesses += guess
            if (rate := with_guesses / self._costs.of(already + count, 0)) > best:
                best, self.guesses_on = rate, True
        copies = self._index.continuation(self._limit - already, self.guesses)
        for count, (_, match) in enumerate(copies, 1):
            copy *= self._copying[_kind(match)].value
            with_copies += copy
            if (rate := with_copies / self._costs.of(already, count)) > best:
                best, self.guesses_on, self.copied = rate, False, copies[:count]


def _kind(match: int) -> int:
    """Which estimate a match of so many tokens has."""
    return bisect_right(MATCHES, match) - 1
