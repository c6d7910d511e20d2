"""Regret: how much slower a chooser is than the best fixed setting in hindsight, by kind of text.

A chooser is a policy, which chooses while it decodes, or the advice, which chooses before. Every fixed setting of a
grid runs on the same prompts; settings and choosers take turns within each repeat, as systems do in a benchmark. The
best setting is chosen from the runs that measure it, so regret is rather overestimated: the fastest of many was also
lucky. `held_out` chooses it by one half of the repeats and measures in the other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from statistics import fmean
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd

from draftscope.base.errors import DraftscopeError
from draftscope.base.prompts import Prompt
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.policy.arms import arms_of
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.bench_plan import BenchPlan
from draftscope.measure.bench.cases import cases
from draftscope.measure.bench.round_arrays import MeasuredRounds
from draftscope.measure.bench.rows import Paired, loop_share
from draftscope.measure.bench.runner import Bench, BenchRun
from draftscope.measure.bench.statistics import LOOP, Interval, resampled
from draftscope.measure.bench.systems import OWN, PLAIN, DrafterSystem, Label, System

Compare = Callable[[Sequence[Paired]], Interval]  # how many times as fast the first runs of the pairs are


@dataclass(frozen=True)
class RegretCell:
    """One kind of text at one temperature and concurrency."""

    kind: str
    prompts: Sequence[Prompt]
    temperature: float
    concurrency: int

    @property
    def title(self) -> str:
        return f"{self.kind} at T = {self.temperature:g}, {self.concurrency} at once"


@dataclass(frozen=True)
class ChosenSetting:
    """What a chooser decodes a cell with. `facts` are further columns of its row in the result."""

    system: System
    facts: Mapping[str, Any]
    notes: Sequence[str] = ()


class Chooser(ABC):
    """Chooses a setting for every cell; `compare` says what it wants to be fast at."""

    name: str

    @abstractmethod
    def choose(self, cell: RegretCell) -> ChosenSetting:
        """Called once a cell, before the grid runs."""

    def compare(self, cell: RegretCell, pairs: Sequence[Paired]) -> Interval:  # noqa: ARG002 - the same for all cells
        """How many times as fast the first runs of the pairs are, of which there is at least one."""
        return ratio_of_sums(pairs)


class BanditChooser(Chooser):
    """A bandit over arms: the system it decodes with is itself. Every text starts with a new policy."""

    def __init__(self, engine: DecodingEngine, name: str, arms: tuple[str, ...]) -> None:
        self.name = name
        self._system = named_system(engine, name, Settings.of(drafter="bandit", arms=arms, policy=name))

    def choose(self, cell: RegretCell) -> ChosenSetting:  # noqa: ARG002 - it chooses while it decodes
        return ChosenSetting(self._system, {})


def named_system(engine: DecodingEngine, name: str, settings: Settings) -> DrafterSystem:
    """An arm, or a policy over all arms, through the engine's own loop."""
    return DrafterSystem(engine, Label(OWN, name), settings=settings.model_dump())


def arm_systems(engine: DecodingEngine, arms: tuple[str, ...]) -> list[System]:
    """Every arm with nothing to choose. Raises `DraftscopeError` for one that is invalid or that cannot run here."""
    base = Settings.of(drafter="bandit", arms=arms)
    engine.start_batch([[0]], base, (0,))  # raises for an arm that these models cannot play
    return [named_system(engine, arm.name, arm.settings) for arm in arms_of(base)]


def regret(
    engine: DecodingEngine,
    plan: BenchPlan,
    choosers: Sequence[Chooser],
    grid: Sequence[System],
    texts: Mapping[str, Sequence[Prompt]],
    notes: list[str],
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[pd.DataFrame]:
    """The rows so far, after each cell; the last frame is the result. No cell starts after `plan.seconds`.

    A row is a fixed setting or a chooser (`policy`) in a cell: `name`, `setting` (what it decoded with),
    `ratio_to_plain` and `ratio_to_best` (intervals), `best`, `regret` = 1 - ratio to plain / the best setting's,
    `held_out`, `tokens_per_round`, `looping` of `runs`, and the facts of a chooser. `notes` gets what was skipped.
    Raises `DraftscopeError` if nothing could be measured in all cells.
    """
    until = perf_counter() + (plan.seconds if plan.seconds is not None else float("inf"))
    rows: list[dict[str, Any]] = []
    for batch, temperature, kind in product(plan.batches, plan.temperatures, texts):
        if perf_counter() > until:
            return
        cell = RegretCell(kind, texts[kind], temperature, batch)
        say(cell.title)
        try:
            more, skipped = measure_cell(engine, plan, choosers, grid, cell)
        except DraftscopeError as error:
            more, skipped = [], [f"{cell.title} was skipped: {error}"]
        rows += more
        notes += [note for note in skipped if note not in notes]
        if rows:
            yield pd.DataFrame(rows)
    if not rows:
        raise DraftscopeError(f"Nothing was measured. {' '.join(notes)}")


def measure_cell(
    engine: DecodingEngine, plan: BenchPlan, choosers: Sequence[Chooser], grid: Sequence[System], cell: RegretCell
) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of one cell, and notes. Raises `DraftscopeError` if no fixed setting ran."""
    choices = {chooser: chooser.choose(cell) for chooser in choosers}
    systems = [DrafterSystem(engine, PLAIN), *grid, *(choice.system for choice in choices.values())]
    by_label = {system.label: system for system in systems}
    only = replace(plan, temperatures=(cell.temperature,), batches=(cell.concurrency,), seconds=None)
    todo, unreadable = cases(engine, only, {cell.kind: cell.prompts})
    bench = Bench(only, list(by_label.values()), todo)
    runs = bench.runs()
    notes = [*unreadable, *(note for choice in choices.values() for note in choice.notes), *bench.notes]
    if not {run.label for run in runs} & {system.label for system in grid}:
        raise DraftscopeError(" ".join(bench.notes))
    return cell_rows(cell, runs, [system.label for system in grid], choices), notes


def no_rows() -> pd.DataFrame:
    """What there is before the first cell."""
    return pd.DataFrame({"policy": pd.Series(dtype=bool), "temperature": [], "concurrency": []})


def cell_rows(
    cell: RegretCell, runs: Sequence[BenchRun], grid: Sequence[Label], choices: Mapping[Chooser, ChosenSetting]
) -> list[dict[str, Any]]:
    """The rows of one cell: the grid's settings, then the choosers, of which all compare alike."""
    compare = next(iter(choices)).compare if choices else None
    table = CellRuns(runs, lambda pairs: compare(cell, pairs) if compare else ratio_of_sums(pairs))
    settings = [label for label in dict.fromkeys(grid) if table.pairs(label, PLAIN)]
    place = {"kind": cell.kind, "temperature": cell.temperature, "concurrency": cell.concurrency}
    fixed = [place | {"policy": False, "name": label.name} | table.row(label, settings) for label in settings]
    chosen = [
        place | {"policy": True, "name": chooser.name} | table.row(choice.system.label, settings) | dict(choice.facts)
        for chooser, choice in choices.items()
        if table.pairs(choice.system.label, PLAIN)
    ]
    return [*fixed, *chosen]


class CellRuns:
    """The runs of a cell, by setting."""

    def __init__(self, runs: Sequence[BenchRun], compare: Compare) -> None:
        self._by_label: dict[Label, dict[tuple[int, int], BenchRun]] = {}
        for run in runs:
            self._by_label.setdefault(run.label, {})[run.repeat, run.case.number] = run
        self._compare = compare
        self.ratio = cache(self._ratio)

    def pairs(self, label: Label, other: Label, half: int | None = None) -> list[Paired]:
        """The runs of two settings; only those of even (0) or odd (1) repeats if a `half` is given."""
        theirs = self._by_label.get(other, {})
        pairs = [Paired(run, theirs[key]) for key, run in self._by_label.get(label, {}).items() if key in theirs]
        return [pair for pair in pairs if half is None or pair[0].repeat % 2 == half]

    def _ratio(self, label: Label, other: Label = PLAIN, half: int | None = None) -> Interval:
        return self._compare(self.pairs(label, other, half))

    def best(self, settings: Sequence[Label], half: int | None = None) -> Label:
        """The setting with the largest ratio to plain decoding."""
        return max(settings, key=lambda label: self.ratio(label, PLAIN, half).median)

    def row(self, label: Label, settings: Sequence[Label]) -> dict[str, Any]:
        """A setting against plain decoding and against the best of `settings`."""
        best, runs = self.best(settings), list(self._by_label[label].values())
        return {
            "setting": label.name,
            "ratio_to_plain": self.ratio(label),
            "ratio_to_best": self.ratio(label, best),
            "best": best.name,
            "best_ratio": self.ratio(best),
            "regret": 1 - self.ratio(label).median / self.ratio(best).median,
            "held_out": self.held_out(label, settings),
            "tokens_per_round": MeasuredRounds.joined([run.rounds for run in runs if run.rounds]).tokens_per_round(),
            "looping": sum(loop_share(run) > LOOP for run in runs),
            "runs": len(runs),
        }

    def held_out(self, label: Label, settings: Sequence[Label]) -> float | None:
        """Regret against the setting that is the best in one half of the repeats, measured in the other half: the mean
        of both ways round, which may be negative. None where a setting has no runs in a half."""
        if not all(self.pairs(setting, PLAIN, half) for setting in (label, *settings) for half in (0, 1)):
            return None
        best = [self.best(settings, half) for half in (0, 1)]
        ratios = [
            self.ratio(label, PLAIN, 1 - half).median / self.ratio(best[half], PLAIN, 1 - half).median
            for half in (0, 1)
        ]
        return 1 - fmean(ratios)


def ratio_of_sums(pairs: Sequence[Paired]) -> Interval:
    """All tokens over all seconds, over the other's; the interval is a bootstrap over pairs, which write equally many
    tokens. A ratio of sums is what the policies maximise."""
    seconds = np.array([[theirs.seconds, run.seconds] for run, theirs in pairs])  # [pairs, 2]
    whole, sums = seconds.sum(0), seconds[resampled(len(pairs))].sum(1)
    return Interval.of(whole[0] / whole[1], sums[:, 0] / sums[:, 1])
