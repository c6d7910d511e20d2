"""The tables of this room, and the cards and engines in them. A row is picked by the first pattern that occurs in a
name, case ignored."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files

from draftscope.base.errors import DraftscopeError, quoted

Row = Mapping[str, str]
NEAREST, SHORT = 5, 15  # names in a message; rows of a table that is named as a whole


@cache
def read_table(name: str) -> tuple[Row, ...]:
    """All rows of `name`.csv in this folder, as text by column."""
    text = files(__package__).joinpath(f"{name}.csv").read_text("utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def pick_row(table: str, name: str) -> Row | None:
    """The first row whose pattern occurs in `name`."""
    words = re.sub(r"[\s_]+", "-" if table == "models" else " ", name.strip().lower())
    return next((row for row in read_table(table) if re.search(row["pattern"], words)), None)


def names_like(table: str, name: str) -> str:
    """The names of a table for a message: of a long one those that are most like `name`."""
    names = {row["name"].lower(): row["name"] for row in read_table(table)}
    near = get_close_matches(name.lower(), names, NEAREST, cutoff=0)
    return ", ".join(names.values() if len(names) <= SHORT else map(names.__getitem__, near))


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
        raise DraftscopeError(f"The card '{quoted(name)}' is not in the table; try {names_like('cards', name)}.")
    return Card(row["name"], *(float(row[key]) for key in ("gb_s", "bf16_tflop_s", "memory_gb", "link_gb_s")))


@dataclass(frozen=True)
class EngineCosts:
    """Milliseconds beside the kernels. Servers draft chains where nothing else is said, the papers' own code trees."""

    name: str
    trees: bool
    by_tensor: bool  # several cards share each layer; otherwise each has some of the layers
    layer_ms: float  # launches of a layer, or the gaps between its kernels in a graph
    step_ms: float  # at each forward of the target
    sequence_ms: float  # the same for each sequence; twice that in a round of speculation
    draft_ms: float  # at each forward of the drafter
    round_ms: float  # at each round of speculation


def find_engine(name: str) -> EngineCosts:
    """The row of the table that fits a name such as 'vLLM 0.27.1'; what no row names is 'other'."""
    row = pick_row("engines", name or "other")
    assert row is not None, "the last row fits every name"
    times = (float(row[key]) for key in ("layer_ms", "step_ms", "sequence_ms", "draft_ms", "round_ms"))
    return EngineCosts(row["name"], row["trees"] == "1", row["split"] == "tensor", *times)
