"""Cards by name, from the table of data sheets."""

from __future__ import annotations

from dataclasses import dataclass

from draftscope.base.errors import DraftscopeError, quoted
from draftscope.forecast.tables import Row, names_of, pick_row


@dataclass(frozen=True)
class Card:
    """GB/s of memory, dense bfloat16 TFLOP/s, GB of memory, and GB/s to a neighbour in one direction."""

    name: str
    gb_s: float
    tflop_s: float
    memory_gb: float = 80.0
    link_gb_s: float = 25.0


def find_card(name: str) -> Card:
    """The card of a name such as 'H100' or 'RTX 3090 24GB'."""
    if (row := pick_row("cards", name)) is None:
        raise DraftscopeError(f"the card '{quoted(name)}' is not in the table; give one of: {names_of('cards')}")
    return _of_row(row)


def _of_row(row: Row) -> Card:
    return Card(row["name"], *(float(row[key]) for key in ("gb_s", "bf16_tflop_s", "memory_gb", "link_gb_s")))
