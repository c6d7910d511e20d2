"""What of a forecast was held to published speedups, in a sentence.

`held.csv` is written by `python -m tests.programs.held_rows FILE` from the rows of a published record whose acceptance
is known: an engine, a card, a drafter, how many rows, and the median of |forecast / published - 1|. Rows that name no
card were taken for H100s.
"""

from __future__ import annotations

from draftscope.forecast.hardware_tables import Row, read_table

# The median error of 116 rows that a reviewer collected: 10.1% for sources like those of the record, 32.6% for others.
OUTSIDE = "forecasts outside it were off by a third in the median, and some by several times"


def held_to(drafter: str, engine: str, card: str) -> str:
    """On the rows with this drafter, engine and card, or that there are none and what there is instead."""
    rows = read_table("held")
    here = [row for row in rows if (row["engine"], row["card"]) == (engine, card)]
    unnamed = [row for row in rows if (row["engine"], row["card"]) == (engine, "")] if card.startswith("H100") else []
    same = [row for row in (*here, *unnamed) if row["drafter"] == drafter]
    if same:
        return f"Held to {' and to '.join(map(_rows, same))} of {drafter} with {engine} on {card}."
    others = sum(int(row["rows"]) for row in here)
    there = f"; {others} rows of it have other drafters" if others else ""
    where = f"{drafter} with {engine} on {card}" if others else f"{engine} on {card}"
    return f"Outside the published record: no row of {where}{there}; {OUTSIDE}. Measure before you rely on it."


def _rows(row: Row) -> str:
    plural = "" if row["rows"] == "1" else "s"
    unnamed = "" if row["card"] else " that name no card"
    return f"{row['rows']} published row{plural}{unnamed} (median error {row['median']}%)"
