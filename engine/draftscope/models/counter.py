"""What a model says of itself: what it can do here, how many forwards it has run, and that one is running now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass


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
            self._recorded = [other for other in self._recorded if other is not recorded]

    @contextmanager
    def counted_as(self, widths: Sequence[int]) -> Iterator[None]:
        """Counts forwards of these widths for the `with` block, whatever really runs inside."""
        before, lengths = self.forwards, [(recorded, len(recorded)) for recorded in self._recorded]
        yield
        self.forwards = before
        for recorded, length in lengths:
            del recorded[length:]
        self.add(widths)


@dataclass(frozen=True)
class Capabilities:
    """What a model was found to support.

    `trees`: draft trees, and batches of sequences with different lengths. A model without it makes its own masks and
    verifies chains, one sequence at a time.
    """

    trees: bool
    row_by_row: bool = False  # its layers with a state can continue that state only by single rows
    state_bytes: int = 0  # of one sequence's states, if some layers keep one


class Pulse:
    """`forwards` began so far, the latest of them with `rows` rows. Never reset; shared by copies of a model."""

    def __init__(self) -> None:
        self.forwards = 0
        self.rows = 0

    def add(self, rows: int) -> None:
        """A forward, or a loop of forwards, begins."""
        self.forwards += 1
        self.rows = rows
