"""How often a model ran: what tests and checks of "one forward a round" read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class ForwardCounter:
    """Counts forwards. Their widths are kept only for whoever asks, and only while they ask."""

    def __init__(self) -> None:
        self.forwards = 0
        self._kept: list[list[int]] = []  # one list for each reader of `widths`

    def add(self, widths: Sequence[int]) -> None:
        """One forward for each entry, which is its number of rows."""
        self.forwards += len(widths)
        for kept in self._kept:
            kept.extend(widths)

    @contextmanager
    def widths(self) -> Iterator[list[int]]:
        """The rows of each forward that runs inside the `with` block, in order."""
        kept: list[int] = []
        self._kept.append(kept)
        try:
            yield kept
        finally:
            self._kept = [each for each in self._kept if each is not kept]

    @contextmanager
    def counted_as(self, widths: Sequence[int]) -> Iterator[None]:
        """Whatever runs inside the `with` block counts as forwards of these widths, in the end."""
        before, lengths = self.forwards, [(kept, len(kept)) for kept in self._kept]
        yield
        self.forwards = before
        for kept, length in lengths:
            del kept[length:]
        self.add(widths)
