"""Whose turn it is: turns go round among visitors, never among their runs, and a long run is decoded in several turns.

They go round among the addresses first, and at an address among its visitors; a visitor's runs go in order of arrival.
Races go before whole solo runs and measurements, which get every fifth turn while races wait too. No run's clock
counts the turns of others; only the first round of a turn may be slower, since other weights were in the cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from draftscope_app.engine.jobs import Asker

TURN_S = 1.0  # of a run that others wait for, until its round is over
RACES_FIRST = 4  # turns of races before one of a measurement that waits
MAX_BEGUN = 16  # runs with caches of their own at the same time


class Turn(Protocol):
    """A run, as far as turns are about it."""

    @property
    def asker(self) -> Asker:
        """Who asked for it."""

    @property
    def ready(self) -> bool:
        """It could go on now."""

    @property
    def begun(self) -> bool:
        """It has had a turn."""

    @property
    def measures(self) -> bool:
        """It is a measurement, or a whole solo run: races go first."""


Run = TypeVar("Run", bound=Turn)
Name = TypeVar("Name", bound=Hashable)


class Turns(Generic[Run]):
    """`clock` is in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._order: dict[str, dict[Asker, None]] = {}  # visitors by address; who had no turn for longest is first
        self._current: Run | None = None
        self._began, self._measures = 0.0, False  # of the current turn
        self._races = 0  # turns of races since a measurement that waits had one

    def next(self, runs: Collection[Run]) -> Run | None:
        """The one of `runs`, which are in order of arrival, that goes on now; None if none can."""
        self._know(runs)
        able = _able(runs)
        if any(run is self._current for run in able) and not self._over():
            return self._current
        if self._current is not None:
            self._passes(self._current.asker)
        self._current, self._began = self._chosen(able), self._clock()
        self._measures = self._current is not None and self._current.measures
        return self._current

    def _over(self) -> bool:
        """A turn is over when its time is, or when the run has raced and now measures: races that wait come first."""
        measures = self._current is not None and self._current.measures
        return measures != self._measures or self._clock() - self._began >= TURN_S

    def _know(self, runs: Collection[Run]) -> None:
        """New visitors go to the end of the order, and those who have left lose their place."""
        askers = dict.fromkeys(run.asker for run in runs)
        for asker in askers:
            self._order.setdefault(asker.address, {}).setdefault(asker)
        for address, visitors in list(self._order.items()):
            kept = {asker: None for asker in visitors if asker in askers}
            if kept:
                self._order[address] = kept
            else:
                del self._order[address]

    def _passes(self, asker: Asker) -> None:
        """The visitor, and their address, go to the end of the order."""
        visitors = self._order.pop(asker.address, {})
        if visitors:
            visitors.pop(asker, None)
            self._order[asker.address] = visitors | {asker: None}

    def _chosen(self, able: Sequence[Run]) -> Run | None:
        races = [run for run in able if not run.measures]
        others = [run for run in able if run.measures]
        if races and (not others or self._races < RACES_FIRST):
            self._races += bool(others)
            return self._first(races)
        self._races = 0
        return self._first(others)

    def _first(self, runs: Sequence[Run]) -> Run | None:
        """The earliest run of the visitor whose turn it is."""
        askers = {run.asker for run in runs}
        for visitors in self._order.values():
            for asker in visitors:
                if asker in askers:
                    return next(run for run in runs if run.asker == asker)
        return None


def _able(runs: Iterable[Run]) -> list[Run]:
    """Those that can go on; no new one while `MAX_BEGUN` others do, each of which has its caches in memory."""
    ready = [run for run in runs if run.ready]
    full = sum(run.begun for run in ready) >= MAX_BEGUN
    return [run for run in ready if run.begun or not full]


def turns_before(name: Name, askers: Mapping[Name, Asker]) -> int:
    """How many turns come before the first one of the run `name`: those of its visitor's earlier runs, and one of each
    other visitor who came before. `askers` are in order of arrival; 0 if `name` is not among them."""
    names = list(askers)
    before = [askers[other] for other in names[: names.index(name)]] if name in names else []
    return before.count(askers[name]) + len({*before} - {askers[name]}) if before else 0
