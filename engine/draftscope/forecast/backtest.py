"""The forecast beside a published record: errors and coverage by group, the worst rows, and the rows left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from math import log
from pathlib import Path
from statistics import median

import numpy as np

from draftscope.base import markdown
from draftscope.base.errors import DraftscopeError
from draftscope.forecast.acceptance_priors import Band, kind_of_text
from draftscope.forecast.forecast import Scenario, speedup_of
from draftscope.forecast.record import PublishedRow, in_training_half, read_row, read_rows

WORST = 10
NO_ACCEPTANCE = "no tau, and no published row of its kind and text"
HALVES = {True: "chosen on", False: "shown on"}


@dataclass(frozen=True)
class CheckedRow:
    """One row: its forecast with what was published of its tau, and without."""

    row: PublishedRow
    notes: str
    predicted: Band
    without_tau: bool

    @property
    def error(self) -> float:
        """Relative, of the speedup."""
        return abs(self.predicted.middle / self.row.speedup - 1)

    @property
    def half(self) -> str:
        return HALVES[in_training_half(self.row.source)]

    @property
    def acceptance_from(self) -> str:
        """What was known of acceptance."""
        if self.without_tau:
            return "nothing" if self.row.tau is None else "nothing (tau hidden)"
        return "tau" if self.row.row_class == "ratio_tau" else "a rate"


@dataclass(frozen=True)
class Validation:
    """All rows that could be predicted, and how many could not, by reason."""

    checked: Sequence[CheckedRow]
    refused: Mapping[str, int]

    def markdown(self) -> str:
        """Tables."""
        known = [entry for entry in self.checked if not entry.without_tau]
        rows = len({entry.row.name for entry in self.checked})
        parts = [f"{rows} rows predicted, {sum(self.refused.values())} not."]
        parts += [_table(self.checked, lambda entry: entry.acceptance_from), *(_table(known, how) for how in GROUPS)]
        parts += ["The worst:", _worst(known), "Not predicted:"]
        parts += [
            markdown.table(("reason", "rows"), [(why, str(n)) for why, n in Counter(self.refused).most_common()], "lr")
        ]
        return "\n\n".join(parts)

    def plain(self) -> dict[str, object]:
        """As JSON holds it."""
        rows = [
            {
                "id": entry.row.name,
                "half": entry.half,
                "given": entry.acceptance_from,
                "published": entry.row.speedup,
                "predicted": asdict(entry.predicted),
            }
            for entry in self.checked
        ]
        return {"rows": rows, "not_predicted": dict(self.refused)}


def validate(path: Path) -> Validation:
    """Predicts every row of a CSV file that can be read, or raises a DraftscopeError."""
    checked: list[CheckedRow] = []
    refused: Counter[str] = Counter()
    for row in read_rows(path):
        result = read_row(row)
        if isinstance(result, str):
            refused[result] += 1
        else:
            rows = list(_check(result, row.get("notes", "")))
            refused.update([] if rows else [NO_ACCEPTANCE])
            checked += rows
    return Validation(checked, refused)


def _check(row: PublishedRow, notes: str) -> Iterator[CheckedRow]:
    """Without tau, and with it where it was published."""
    text = kind_of_text(row.dataset)
    scenario = Scenario(row.target, row.drafting, row.machine, row.sequences, row.context, text=text)
    with suppress(DraftscopeError):  # no prior
        yield CheckedRow(row, notes, speedup_of(scenario), without_tau=True)
    if row.tau is not None:
        yield CheckedRow(row, notes, speedup_of(replace(scenario, tau=row.tau)), without_tau=False)


def _batch(entry: CheckedRow) -> str:
    return next(name for most, name in ((1, "1"), (8, "2 to 8"), (1 << 30, "more")) if entry.row.sequences <= most)


GROUPS: Sequence[Callable[[CheckedRow], str]] = (
    lambda entry: f"engine {entry.row.engine}",
    lambda entry: f"card {entry.row.gpu or 'not named'}",
    lambda entry: f"drafter {entry.row.drafter}",
    lambda entry: f"batch {_batch(entry)}",
    lambda entry: f"class {entry.row.row_class}",
)


def _table(rows: Sequence[CheckedRow], group: Callable[[CheckedRow], str]) -> str:
    """Errors and coverage of each group, by half."""
    groups: dict[tuple[str, str], list[CheckedRow]] = {}
    for entry in rows:
        groups.setdefault((entry.half, group(entry)), []).append(entry)
    cells = [(*name, *summary(group)) for name, group in sorted(groups.items())]
    return markdown.table(("half", "group", "rows", "median", "90th", "in the interval"), cells, "llrrrr")


def summary(rows: Sequence[CheckedRow]) -> tuple[str, str, str, str]:
    """Number, median and 90th percentile of the relative error, and the share of rows in their interval."""
    errors = [entry.error for entry in rows]
    inside = sum(entry.predicted.low <= entry.row.speedup <= entry.predicted.high for entry in rows)
    return (
        f"{len(rows)}",
        f"{100 * median(errors):.1f}%",
        f"{100 * np.quantile(errors, 0.9):.0f}%",
        f"{100 * inside / len(rows):.0f}%",
    )


def _worst(rows: Sequence[CheckedRow]) -> str:
    """With what the published ratio says that a round cost, in steps of plain decoding."""
    cells = []
    for entry in sorted(rows, key=lambda entry: -abs(log(entry.predicted.middle / entry.row.speedup)))[:WORST]:
        row, tau = entry.row, entry.row.tau or 0.0
        why = f"a round cost {tau / row.speedup:.2f} steps, forecast {tau / entry.predicted.middle:.2f}"
        what = f"{row.engine}, {row.drafter}, {row.target.name}, {row.gpu or 'no card named'}, batch {row.sequences}"
        cells.append(
            (
                row.name,
                what,
                f"{row.speedup:.2f}",
                f"{entry.predicted.middle:.2f}",
                f"{why}; {entry.notes}".strip("; "),
            )
        )
    return markdown.table(("row", "what", "published", "forecast", "why"), cells, "llrrl")
