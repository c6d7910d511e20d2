"""Counts a model's forwards, for tests and checks that a round takes one forward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class ForwardCounter:
    """Counts forwards. Their widths are recorded only inside a `widths` block, so memory does not grow."""

    def __init__(self) -> None:
        self.forwards = 0
        self._recorded: list[list[int]] = []  # one list for each open `widths` block

    def add(self, widths: Sequence[int]) -> None:
        """Counts one forward for each entry of `widths`, its number of rows."""
        self.forwards += len(widths)
        for recorded in self._recorded:
            recorded.extend(widths)

    @contextmanager
    def widths(self) -> Iterator[list[int]]:
        """The numbers of rows of the forwards that run inside the `with` block, in order."""
        recorded: list[int] = []
        self._recorded.append(recorded)
        try:
            yield recorded
        finally:
            self._recorded = [each for each in self._recorded if each is not recorded]

    @contextmanager
    def counted_as(self, widths: Sequence[int]) -> Iterator[None]:
        """Counts forwards of these widths for the `with` block, whatever really runs inside."""
        before, lengths = self.forwards, [(recorded, len(recorded)) for recorded in self._recorded]
        yield
        self.forwards = before
        for recorded, length in lengths:
            del recorded[length:]
        self.add(widths)
