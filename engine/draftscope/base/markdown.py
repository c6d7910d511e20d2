"""Markdown tables, padded so that they are readable on a terminal too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tabulate import tabulate

SIDES = {"l": "left", "r": "right"}


def table(head: Sequence[str], rows: Iterable[Sequence[str]], align: str = "") -> str:
    """A Markdown table. `align` has an 'l' or 'r' for each column; by default all columns are left-aligned."""
    return tabulate(
        [[_cell(cell) for cell in row] for row in rows],
        headers=[_cell(name) for name in head],
        tablefmt="pipe",
        colalign=[SIDES[side] for side in align or "l" * len(head)],
        disable_numparse=True,
    )


def one_line(text: str) -> str:
    """The text without line breaks and repeated spaces."""
    return " ".join(text.split())


def _cell(text: str) -> str:
    return one_line(text).replace("|", "\\|")
