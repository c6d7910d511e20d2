"""Reads the tables of this room: a row is picked by the first pattern that occurs in a name, case ignored."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

Row = Mapping[str, str]


@cache
def read_table(name: str) -> tuple[Row, ...]:
    """All rows of `name`.csv in this folder, as text by column."""
    text = files(__package__).joinpath(f"{name}.csv").read_text("utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def pick_row(table: str, name: str) -> Row | None:
    """The first row whose pattern occurs in `name`."""
    words = re.sub(r"[\s_]+", "-" if table == "models" else " ", name.strip().lower())
    return next((row for row in read_table(table) if re.search(row["pattern"], words)), None)


def names_of(table: str) -> str:
    """The names of a table, for a message."""
    return ", ".join(row["name"] for row in read_table(table))
