"""Work in steps: a generator that yields at least once a round, so that its caller may stop it or turn to other work.

A step is an event, or None where there is nothing to say. The result is the generator's return value, which
`x = yield from steps` hands on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from typing import Generic, TypeVar, cast

Item = TypeVar("Item")
Other = TypeVar("Other")
Found = TypeVar("Found")
Steps = Generator[Item, None, Found]


class Cancelled(BaseException):
    """Nobody waits for the result any more. Not an `Exception`: work that outlives errors does not outlive this."""


def last(steps: Steps[Item, Found], see: Callable[[Item], object] = lambda _: None) -> Found:
    """The result of `steps`, all of which are taken now; `see` is called with each."""
    while True:
        try:
            item = next(steps)
        except StopIteration as end:
            return cast(Found, end.value)
        see(item)


def mapped(steps: Steps[Item, Found], change: Callable[[Item], Other]) -> Steps[Other, Found]:
    """The same steps, each changed, and the same result."""
    return spread(steps, lambda item: (change(item),))


def mapped_to(steps: Steps[Item, Found], item: Other) -> Steps[Other, Found]:
    """The same steps, each of which says `item`, and the same result."""
    return mapped(steps, lambda _: item)


def spread(steps: Steps[Item, Found], change: Callable[[Item], Iterable[Other]]) -> Steps[Other, Found]:
    """What becomes of each step, one after the other, and the same result."""
    while True:
        try:
            item = next(steps)
        except StopIteration as end:
            return cast(Found, end.value)
        yield from change(item)


def stoppable(steps: Steps[Item, Found], cancelled: Callable[[], bool]) -> Iterator[Item]:
    """The same steps. Once it is `cancelled`, which is called before each of them, `Cancelled` is thrown in: what they
    still say, as the ends of a race's lanes, comes last."""
    with suppress(Cancelled, StopIteration):
        while not cancelled():
            yield next(steps)
        yield steps.throw(Cancelled())
        yield from steps


def said(steps: Iterable[Item | None]) -> Iterator[Item]:
    """The steps that say something."""
    return (item for item in steps if item is not None)


class Together(Generic[Item, Found]):
    """A measurement that several wait for: whoever has the turn takes its next step, so that it is made once.

    Each hears what its own steps say. It is given up when nobody waits for it any more.
    """

    def __init__(self, begin: Callable[[], Steps[Item, Found]]) -> None:
        self._begin = begin
        self._running: Steps[Item, Found] | None = None
        self._waiting = 0
        self._results: list[Found] = []

    @property
    def result(self) -> Found | None:
        """What was measured, once it is."""
        return self._results[0] if self._results else None

    def steps(self) -> Steps[Item, Found]:
        """One who waits."""
        self._waiting += 1
        try:
            while not self._results:
                yield from self._step()
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._running = None
        return self._results[0]

    def _step(self) -> Iterator[Item]:
        self._running = self._running or self._begin()
        try:
            said = next(self._running)
        except StopIteration as end:
            self._results.append(end.value)
            return
        except BaseException:
            self._running = None
            raise
        yield said
