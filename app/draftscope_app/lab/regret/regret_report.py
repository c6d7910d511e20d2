"""Regret as JSON and Markdown."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import pandas as pd

from draftscope.base.machine import machine_words
from draftscope.base.markdown import one_line, table
from draftscope.decode.engine import DecodingEngine
from draftscope.measure.bench.bench_plan import BenchPlan
from draftscope.measure.bench.report import machine

METHOD = """{tokens} tokens per text, including prefill; ends of text are ignored; {repeats} interleaved repeats after
one warm-up pass. Ratios are over plain decoding in the same repeat of the same prompt, in brackets 95% bootstrap
intervals. Regret is 1 - the ratio of what was chosen / that of the best fixed setting, which is chosen from these same
runs, so it is rather overestimated. Held out: the best is chosen by one half of the repeats and measured in the other,
the mean of both ways round."""
SPEEDS = (
    "Speed over plain's, T = {temperature} (tokens a round; ~ if every run loops), the best setting of a kind in bold; "
    "last the mean regret over the kinds, which for a fixed setting is the cost of not knowing the kind:"
)


@dataclass(frozen=True)
class RegretReport:
    """All rows (`regret.regret`), and the machine and models they belong to."""

    machine: dict[str, str | int]
    method: str
    plan: BenchPlan
    rows: pd.DataFrame
    notes: list[str]

    @classmethod
    def of(cls, engine: DecodingEngine, plan: BenchPlan, rows: pd.DataFrame, notes: list[str]) -> RegretReport:
        method = one_line(METHOD.format(tokens=plan.tokens, repeats=plan.repeats))
        return cls(machine(engine), method, plan, rows, notes)

    def as_json(self) -> str:
        """One object; `rows` is a list of objects, an interval an object of `median`, `low` and `high`."""
        rows = self.rows.astype(object).where(self.rows.notna(), None).to_dict("records")
        values = {"machine": self.machine, "method": self.method, "plan": asdict(self.plan), "rows": rows}
        return json.dumps(values | {"notes": self.notes}, indent=1, default=asdict)

    def markdown(self) -> str:
        """Machine, method, the choosers, and for every temperature and concurrency the speeds of all settings."""
        chosen = self.rows[self.rows["policy"]]
        parts = [machine_words(self.machine), self.method, choosers_table(chosen) if len(chosen) else ""]
        for (temperature, concurrency), rows in self.rows.groupby(["temperature", "concurrency"], sort=False):
            together = f", {concurrency} at once" if concurrency != 1 else ""
            parts.append(f"{SPEEDS.format(temperature=f'{temperature:g}{together}')}\n\n{speeds_table(rows)}")
        if self.notes:
            parts.append("Notes:\n\n" + "\n".join(f"- {one_line(note)}" for note in self.notes))
        return "\n\n".join(part for part in parts if part) + "\n"

    def save(self, folder: Path, name: str) -> str:
        """Writes `name`.json and `name`.md; returns the Markdown."""
        text = self.markdown()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.json").write_text(self.as_json(), encoding="utf-8")
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
        return text


def choosers_table(rows: pd.DataFrame) -> str:
    """A line for every cell and chooser; the facts of a chooser are columns."""
    facts = [name for name in ("verdict", "predicted", "proven") if name in rows]
    head = [
        "text",
        "T",
        "at once",
        "chooser",
        "chosen",
        *facts,
        "ratio",
        "best fixed setting",
        "regret",
        "over the best",
    ]
    lines = [
        [
            row["kind"], f"{row['temperature']:g}", str(row["concurrency"]), row["name"], row["setting"],
            *(_shown(row[name]) for name in facts), str(row["ratio_to_plain"]),
            f"{row['best']}: {row['best_ratio']}", f"{row['regret']:.1%}", str(row["ratio_to_best"]),
            _share(row["held_out"]),
        ]
        for row in _records(rows)
    ]  # fmt: skip
    return table([*head, "held out"], lines, "lrrll" + "r" * len(facts) + "rlrrr")


def speeds_table(rows: pd.DataFrame) -> str:
    """A line for every setting and chooser, a column for every kind of text."""
    kinds = list(dict.fromkeys(rows["kind"]))
    cells = rows.assign(shown=[_speed(row) for row in _records(rows)])
    shown = cells.pivot_table(index="name", columns="kind", values="shown", aggfunc="first", sort=False)
    regrets = rows.groupby("name", sort=False)["regret"].mean()
    lines = [[name, *shown.loc[name, kinds].fillna("-"), f"{regrets[name]:.1%}"] for name in shown.index]
    return table(["setting", *kinds, "mean regret"], lines, "l" + "r" * (len(kinds) + 1))


def _records(rows: pd.DataFrame) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", rows.to_dict("records"))


def _speed(row: dict[str, Any]) -> str:
    ratio = f"{row['ratio_to_plain'].median:.2f}"
    best = not row["policy"] and row["regret"] == 0
    loops = " ~" if row["looping"] == row["runs"] else ""
    return f"{f'**{ratio}**' if best else ratio} ({row['tokens_per_round']:.2f}){loops}"


def _shown(value: Any) -> str:
    if value is None or pd.isna(value):
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _share(value: float | None) -> str:
    return "-" if value is None or pd.isna(value) else f"{value:.1%}"
