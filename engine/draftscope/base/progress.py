"""How far a measurement is, and how long it goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

from draftscope.base.steps import Steps, mapped

Found = TypeVar("Found")
MIN_SECONDS = 2.0  # after which the time left is foreseen


@dataclass(frozen=True)
class Progress:
    """What is measured now, what share of it is done, and how long the whole goes on, once that can be said."""

    doing: str
    share: float = 0.0
    seconds_left: float | None = None

    @property
    def words(self) -> str:
        """In a line: what, how much of it, and the time left."""
        share = f"{self.share:.0%}" if self.share else ""
        return ", ".join(part for part in (self.doing, share, time_left(self.seconds_left)) if part)


def time_left(seconds: float | None) -> str:
    """An estimate in words, no finer than it is; empty for None."""
    if seconds is None:
        return ""
    if seconds < 5:
        return "a few seconds left"
    if seconds < 90:
        step = 5 if seconds < 30 else 10
        return f"about {step * int(seconds / step + 0.5)} s left"
    return f"about {int(seconds / 60 + 0.5)} min left"


Watcher = Callable[[Progress], object]


def unseen(_: Progress) -> None:
    """Nobody follows it."""


def with_progress(begin: Callable[[Watcher], Steps[None, Found]], what: str) -> Steps[Progress, Found]:
    """The steps of a measurement of `what`, which tells a watcher how far it is; each step is the latest of that."""
    now = Progress(what)

    def follow(at: Progress) -> None:
        nonlocal now
        now = Progress(f"{what}: {at.doing}", at.share, at.seconds_left)

    return (yield from mapped(begin(follow), lambda _: now))


class Pace:
    """Tells `watch` how far a measurement is that has parts, one after the other, each of some work in any unit."""

    def __init__(self, watch: Watcher, clock: Callable[[], float] = monotonic) -> None:
        self._watch, self._clock = watch, clock
        self._began = clock()

    def begin(self, work: float, later: Callable[[float], float] = lambda _: 0.0) -> None:
        """A part begins. `later` gives the seconds of all parts after it, from the seconds that a unit takes here."""
        self._work, self._later, self._done, self._part = work, later, 0.0, self._clock()

    def advance(self, work: float, doing: str) -> None:
        """So much more of this part is done, of what `doing` says."""
        self._done += work
        now = self._clock()
        unit = (now - self._part) / self._done
        left = unit * max(self._work - self._done, 0.0) + self._later(unit)
        spent = now - self._began
        share = min(spent / max(spent + left, 1e-9), 0.99)
        self._watch(Progress(doing, share, left if spent >= MIN_SECONDS else None))
