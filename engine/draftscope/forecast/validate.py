"""The forecast beside a published record: errors and coverage by group, the worst rows, and the rows left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import log
from pathlib import Path
from statistics import median

import numpy as np

from draftscope.base import markdown
from draftscope.forecast.acceptance import kind_of_text
from draftscope.forecast.band import Band
from draftscope.forecast.forecast import Scenario, speedup_of
from draftscope.forecast.record import Published, in_training_half, read_row, read_rows

WORST = 10
HALVES = {True: "chosen on", False: "shown on"}


@dataclass(frozen=True)
class Checked:
    """One row: its forecast with what was published of its tau, and without."""

    asked: Published
    notes: str
    predicted: Band
    without_tau: bool

    @property
    def error(self) -> float:
        """Relative, of the speedup."""
        return abs(self.predicted.middle / self.asked.speedup - 1)

    @property
    def half(self) -> str:
        return HALVES[in_training_half(self.asked.source)]

    @property
    def given(self) -> str:
        """What was known of acceptance."""
        if self.without_tau:
            return "nothing" if self.asked.tau is None else "nothing (tau hidden)"
        return "tau" if self.asked.row_class == "ratio_tau" else "a rate"


@dataclass(frozen=True)
class Validation:
    """All rows that could be predicted, and how many could not, by reason."""

    checked: Sequence[Checked]
    refused: Mapping[str, int]

    def markdown(self) -> str:
        """Tables."""
        known = [each for each in self.checked if not each.without_tau]
        rows = len({each.asked.name for each in self.checked})
        parts = [f"{rows} rows predicted, {sum(self.refused.values())} not.", _table(self.checked, _by_half)]
        parts += [_table(known, how) for how in GROUPS.values()]
        parts += ["The worst:", _worst(known), "Not predicted:"]
        parts += [
            markdown.table(("reason", "rows"), [(why, str(n)) for why, n in Counter(self.refused).most_common()], "lr")
        ]
        return "\n\n".join(parts)

    def plain(self) -> dict[str, object]:
        """As JSON holds it."""
        rows = [
            {"id": each.asked.name, "half": each.half, "given": each.given, "published": each.asked.speedup}
            | {"predicted": asdict(each.predicted)}
            for each in self.checked
        ]
        return {"rows": rows, "not_predicted": dict(self.refused)}


def validate(path: Path) -> Validation:
    """Predicts every row of a CSV file that can be read, or raises a DraftscopeError."""
    checked: list[Checked] = []
    refused: Counter[str] = Counter()
    for row in read_rows(path):
        found = read_row(row)
        if isinstance(found, str):
            refused[found] += 1
        else:
            checked += _check(found, row.get("notes", ""))
    return Validation(checked, refused)


def _check(found: Published, notes: str) -> Iterator[Checked]:
    """Without tau, and with it where it was published."""
    for tau in {found.tau, None}:
        asked = Scenario(
            found.target,
            found.drafting,
            found.machine,
            found.sequences,
            found.context,
            0,
            tau,
            kind_of_text(found.dataset),
        )
        yield Checked(found, notes, speedup_of(asked), tau is None)


def _by_half(each: Checked) -> tuple[str, ...]:
    return each.half, each.given


def _batch(each: Checked) -> str:
    return next(name for most, name in ((1, "1"), (8, "2 to 8"), (1 << 30, "more")) if each.asked.sequences <= most)


GROUPS: Mapping[str, Callable[[Checked], tuple[str, ...]]] = {
    "engine": lambda each: (each.half, f"engine {each.asked.engine}"),
    "card": lambda each: (each.half, f"card {each.asked.gpu}"),
    "drafter": lambda each: (each.half, f"drafter {each.asked.drafter}"),
    "batch": lambda each: (each.half, f"batch {_batch(each)}"),
    "class": lambda each: (each.half, f"class {each.asked.row_class}"),
}


def _table(rows: Sequence[Checked], key: Callable[[Checked], tuple[str, ...]]) -> str:
    """Errors and coverage of each group."""
    groups: dict[tuple[str, ...], list[Checked]] = {}
    for each in rows:
        groups.setdefault(key(each), []).append(each)
    cells = [(*name, *summary(own)) for name, own in sorted(groups.items())]
    return markdown.table(("half", "group", "rows", "median", "90th", "in the interval"), cells, "llrrrr")


def summary(rows: Sequence[Checked]) -> tuple[str, str, str, str]:
    """Number, median and 90th percentile of the relative error, and the share of rows in their interval."""
    errors = [each.error for each in rows]
    inside = sum(each.predicted.low <= each.asked.speedup <= each.predicted.high for each in rows)
    return (
        f"{len(rows)}",
        f"{100 * median(errors):.1f}%",
        f"{100 * np.quantile(errors, 0.9):.0f}%",
        f"{100 * inside / len(rows):.0f}%",
    )


def _worst(rows: Sequence[Checked]) -> str:
    """With what the published ratio says that a round cost, in steps of plain decoding."""
    cells = []
    for each in sorted(rows, key=lambda each: -abs(log(each.predicted.middle / each.asked.speedup)))[:WORST]:
        asked, tau = each.asked, each.asked.tau or 0.0
        why = f"a round cost {tau / asked.speedup:.2f} steps, forecast {tau / each.predicted.middle:.2f}"
        what = f"{asked.engine}, {asked.drafter}, {asked.target.name}, {asked.gpu}, batch {asked.sequences}"
        cells.append(
            (
                asked.name,
                what,
                f"{asked.speedup:.2f}",
                f"{each.predicted.middle:.2f}",
                f"{why}; {each.notes}".strip("; "),
            )
        )
    return markdown.table(("row", "what", "published", "forecast", "why"), cells, "llrrl")
