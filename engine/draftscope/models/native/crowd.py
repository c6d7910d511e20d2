"""One thread for compiled calls while other programs take the cores from the team.

The threads of one forward meet at several barriers in every layer, and a thread that lost its core lets all others
wait for the rest of somebody's time slice: with a few other programs on two cores, the embedded target's forward took
thirteen times as long on two threads as on one. Rows carry the same bits with any number of threads, so the number may
change between two calls.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from time import perf_counter

JUDGED_S = 0.25  # of calls on several threads, before they are judged
STALLED = 2.0  # times the shortest call of the same work, with as many context switches or more
FIRST_S, LONGEST_S = 0.5, 8.0  # on one thread before the team is tried again; twice as long each time in a row


def _switches() -> int:
    """How often a thread of this process has lost its core."""
    import resource  # not on Windows, where no program is compiled

    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


class Crowd:
    """Decides how many threads a call gets. Made for one process; threads that call at once only blur its judgement."""

    def __init__(self, clock: Callable[[], float] = perf_counter, switches: Callable[[], int] = _switches) -> None:
        self._clock, self._switches = clock, switches
        self._shortest: dict[Hashable, float] = {}
        self._alone_until = 0.0
        self._pause_s = FIRST_S
        self._seconds, self._stalled = 0.0, 0.0

    @contextmanager
    def team(self, most: int, work: Hashable) -> Iterator[int]:
        """The number of threads for the call inside: `most`, or one while the cores are crowded. Calls with the same
        `work` take equally long where nobody disturbs them."""
        if most == 1 or self._clock() < self._alone_until:
            yield 1
            return
        began, before = self._clock(), self._switches()
        yield most
        taken, lost = self._clock() - began, self._switches() - before
        shortest = self._shortest[work] = min(self._shortest.get(work, taken), taken)
        self._seconds += taken
        if lost >= STALLED and taken > STALLED * shortest:
            self._stalled += taken
        if self._seconds >= JUDGED_S:
            self._judge()

    def _judge(self) -> None:
        """The team is crowded if most of its time went into calls that stalled."""
        crowded = 2 * self._stalled > self._seconds
        self._seconds, self._stalled = 0.0, 0.0
        if crowded:
            self._alone_until = self._clock() + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_S) if crowded else FIRST_S


crowd = Crowd()  # the cores are this process's, whichever model computes
