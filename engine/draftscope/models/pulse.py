"""Shows another thread that a model is at work, and on how much: a long prompt is one forward of many rows."""

from __future__ import annotations


class Pulse:
    """`forwards` began so far, the latest of them with `rows` rows. Never reset; shared by copies of a model."""

    def __init__(self) -> None:
        self.forwards = 0
        self.rows = 0

    def add(self, rows: int) -> None:
        """A forward, or a loop of forwards, begins."""
        self.forwards += 1
        self.rows = rows
