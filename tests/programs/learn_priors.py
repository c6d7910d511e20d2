"""Writes priors.csv on stdout from the training half of a record: `python -m tests.programs.learn_priors FILE`."""

from __future__ import annotations

import csv
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from draftscope.base.costs import alpha_of
from draftscope.base.errors import DraftscopeError
from draftscope.forecast.acceptance_priors import kind_of_text
from draftscope.forecast.architecture import of_size
from draftscope.forecast.drafter_forwards import find_kind, plan_drafting
from draftscope.forecast.hardware_tables import find_engine
from draftscope.forecast.record import in_training_half, published_tau, read_rows

WEIGHT = 3.0  # rows that the wider group counts for
MIN_SPREAD = 0.4  # of logits, between sources of one kind; a group of one source shows less
Cell = tuple[str, str, str]


def learn(seen: Sequence[tuple[str, bool, str, float]]) -> Iterator[tuple[str, ...]]:
    """Rows of the table: logits of acceptance by kind, tree and text, each drawn to the wider group."""
    groups: defaultdict[Cell, list[float]] = defaultdict(list)
    for kind, tree, text, alpha in seen:
        logit = math.log(alpha / (1 - alpha))
        for cell in ((kind, str(int(tree)), text), (kind, str(int(tree)), ""), ("", "", "")):
            groups[cell].append(logit)
    middles: dict[Cell, float] = {}
    for cell in sorted(groups):  # the widest first
        local, wider = groups[cell], middles.get((cell[0], cell[1], ""), middles.get(("", "", "")))
        middles[cell] = fmean(local) if wider is None else (sum(local) + WEIGHT * wider) / (len(local) + WEIGHT)
        spread = math.sqrt(fmean((entry - middles[cell]) ** 2 for entry in local))
        yield *cell, f"{middles[cell]:.3f}", f"{max(spread, MIN_SPREAD):.3f}", str(len(local))


def read_acceptance(row: Mapping[str, str]) -> tuple[str, bool, str, float] | None:
    """Kind of drafter, whether it drafts trees, kind of text, and acceptance at every position, if all are known."""
    try:
        kind = find_kind(row["drafter_kind"])
        drafting = plan_drafting(kind, of_size(8e9), row["gamma_or_tree"], trees=find_engine(row["engine"]).trees)
    except DraftscopeError:
        return None
    tau = published_tau(row, drafting)
    if tau is None or not 1 < tau < drafting.depth + 1:
        return None
    return kind.name, drafting.branches, kind_of_text(row["dataset"]), alpha_of(tau, drafting.depth)


def main(paths: Iterable[str]) -> None:
    """The training halves of these files, as a table."""
    rows = [row for path in paths for row in read_rows(Path(path)) if in_training_half(row["source"])]
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(("kind", "tree", "text", "logit", "spread", "rows"))
    table.writerows(learn([result for row in rows if (result := read_acceptance(row)) is not None]))


if __name__ == "__main__":
    main(sys.argv[1:])
