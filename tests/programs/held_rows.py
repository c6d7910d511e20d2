"""Writes held.csv on stdout from a published record: `python -m tests.programs.held_rows FILE`."""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

from draftscope.forecast.backtest import validate


def main(path: str) -> None:
    """Rows whose acceptance is known, by engine, card and drafter, with the median error of the forecast."""
    groups: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
    for entry in validate(Path(path)).checked:
        if not entry.without_tau:
            groups[entry.row.engine, entry.row.gpu, entry.row.drafter].append(entry.error)
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(("engine", "card", "drafter", "rows", "median"))
    table.writerows((*names, len(errors), f"{100 * median(errors):.0f}") for names, errors in sorted(groups.items()))


if __name__ == "__main__":
    main(sys.argv[1])
