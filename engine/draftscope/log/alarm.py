"""Acceptance that no sound drafter has: near nothing (a broken head, another model's draft), or near all (a loop)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from draftscope.log.entries import Tally

ENOUGH = 200  # drafted tokens, below which chance alone can look like either
LAST = 2000  # drafted tokens that are looked back at
NOTHING, ALL = 0.02, 0.98  # share of the drafted tokens that were kept
NEAR_NOTHING, NEAR_ALL = "near nothing is kept", "near everything is kept"
WHY = {
    NEAR_NOTHING: "the drafter does not know this target: a head of another model, a wrong layer, a wrong template",
    NEAR_ALL: "the text repeats itself: a loop, or prompts that were seen before",
}


@dataclass
class RecentAcceptance:
    """What was kept of the last drafted tokens."""

    last: int = LAST
    _entries: deque[tuple[float, int, int]] = field(default_factory=deque)  # rounds, drafted, accepted
    rounds: float = 0
    drafted: int = 0
    accepted: int = 0

    def add(self, tally: Tally) -> None:
        """Takes the newest rounds in, and drops the oldest beyond `last` drafted tokens."""
        if not tally.drafted or tally.accepted is None or tally.rounds is None:
            return
        self._entries.append((tally.rounds, tally.drafted, tally.accepted))
        self._count(1, *self._entries[-1])
        while self.drafted - self._entries[0][1] >= self.last:
            self._count(-1, *self._entries.popleft())

    @property
    def rate(self) -> float | None:
        """Share of the drafted tokens that were kept; None: none was drafted."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def tokens_per_round(self) -> float | None:
        """Tokens a round, with the target's own."""
        return 1 + self.accepted / self.rounds if self.rounds else None

    @property
    def alarm(self) -> str | None:
        """`NEAR_NOTHING` or `NEAR_ALL`; None where neither is so, or too few tokens were drafted to say."""
        if self.rate is None or self.drafted < ENOUGH:
            return None
        return NEAR_NOTHING if self.rate <= NOTHING else NEAR_ALL if self.rate >= ALL else None

    def _count(self, sign: int, rounds: float, drafted: int, accepted: int) -> None:
        self.rounds += sign * rounds
        self.drafted += sign * drafted
        self.accepted += sign * accepted
