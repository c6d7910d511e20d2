"""How good the advice is: every kind of text is asked about, and then a grid of settings is run on the same prompts.

Regret is 1 - (ratio of what was advised) / (the best ratio of the grid), both over plain decoding and from the grid's
own runs, which the advice has not seen. Plain is part of the grid: it is what "leave it off" and "cannot tell" advise.
The best is chosen from the same runs that measure it, so regret is rather overestimated: the fastest of many settings
was also lucky. So it is estimated a second time, with the best chosen by one half of the repeats and measured in the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean
from time import perf_counter

from draftscope.advise import proof
from draftscope.advise.advise import advise, cases_of
from draftscope.advise.candidates import GAMMAS, SHAPES, Candidate, implied, largest
from draftscope.advise.probe import able
from draftscope.advise.question import Question
from draftscope.advise.report import AdviceReport
from draftscope.advise.verdict import Measured, Verdict
from draftscope.base.prompts import Prompt
from draftscope.decode.lab import Lab
from draftscope.drafters import DrafterInfo
from draftscope.measure.bench.plan import BenchPlan
from draftscope.measure.bench.runner import BenchRun
from draftscope.measure.bench.statistics import Interval

GRID_GAMMAS = (1, 2, 3, 4, 6, 8)
GRID_SHAPES = ((2,), (2, 1), (2, 1, 1), (2, 2, 1), (3, 2, 1))
assert set(GRID_GAMMAS) <= set(GAMMAS) and set(GRID_SHAPES) <= set(SHAPES)
ALONE = Interval(1.0, 1.0, 1.0)  # plain over plain
PLAIN = "plain"


@dataclass(frozen=True)
class GridPlan:
    """What is asked, and what the grid repeats."""

    question: Question
    temperatures: tuple[float, ...] = (0.0, 1.0)
    readers: tuple[int, ...] = (1,)
    repeats: int = 2
    seconds: float = 1200.0  # no cell starts later than this


@dataclass(frozen=True)
class RegretCell:
    """One kind of text at one temperature and concurrency. Ratios are over plain decoding, of the objective."""

    kind: str
    temperature: float
    readers: int
    verdict: Verdict
    advised: str  # a setting, or plain
    predicted: float | None  # for the runs that proved it; None for plain
    proven: float | None  # what those runs gave
    ratio: Interval  # of what was advised, in the grid
    best: str
    best_ratio: Interval
    regret: float
    held_out: float | None  # the same with the best chosen by other repeats, which may be negative; None of one repeat
    settings: int  # in the grid, plain left out
    prompts: int
    notes: tuple[str, ...]

    @property
    def missed(self) -> float | None:
        """How far the prediction was from the grid's measurement."""
        return self.predicted / self.ratio.median - 1 if self.predicted is not None else None


def cells(
    lab: Lab,
    plan: GridPlan,
    prompts: Mapping[str, Sequence[Prompt]],
    names: Sequence[str],
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[RegretCell]:
    """Every kind at every temperature and concurrency, one after the other, until the plan's seconds are over."""
    until = perf_counter() + plan.seconds
    for readers, temperature, kind in product(plan.readers, plan.temperatures, prompts):
        if perf_counter() > until:
            return
        say(f"{kind} at T = {temperature:g}, {readers} at once")
        question = replace(plan.question, temperature=temperature, concurrency=readers)
        own = {kind: prompts[kind]}
        found = advise(lab, question, own, names)
        yield _cell(lab, plan, question, own, names, found)


def grid(infos: Sequence[DrafterInfo]) -> list[Candidate]:
    """The settings that are run, of every drafter."""
    return [
        each
        for info in infos
        for each in implied(largest(info))
        if each.form is None or each.gamma in GRID_GAMMAS or each.shape in GRID_SHAPES
    ]


def _cell(
    lab: Lab,
    plan: GridPlan,
    question: Question,
    prompts: Mapping[str, Sequence[Prompt]],
    names: Sequence[str],
    found: AdviceReport,
) -> RegretCell:
    on = found.verdict is Verdict.ON
    chosen = next(each for each in found.measured if each.candidate == found.chosen.candidate)
    every = list(dict.fromkeys([*grid(able(lab, names)), chosen.candidate]))
    _, many, _ = cases_of(lab, question, prompts)
    bench = BenchPlan(
        temperatures=(question.temperature,), batches=(question.concurrency,), tokens=question.length,
        repeats=plan.repeats, peers=False,
    )  # fmt: skip
    running = proof.run(lab, bench, every, many, warm_up=True)
    while True:
        try:
            next(running)
        except StopIteration as end:
            runs, notes = end.value
            break
    measured = proof.measured(question, runs, dict.fromkeys(every, 0.0))
    told = (*found.notes, *notes)
    cell = _compared(question, next(iter(prompts)), found, chosen if on else None, measured, told)
    return replace(cell, held_out=held_out(question, runs, every, cell.advised))


def held_out(question: Question, runs: Sequence[BenchRun], every: Sequence[Candidate], advised: str) -> float | None:
    """Regret against the setting that is the best in one half of the repeats, measured in the other half: the mean of
    both ways round. None where a half has no runs."""
    even, odd = ([run for run in runs if run.repeat % 2 == side] for side in (0, 1))
    if not even or not odd:
        return None
    ratios = [_medians(proof.measured(question, half, dict.fromkeys(every, 0.0))) for half in (even, odd)]
    return fmean(_behind(own, other, advised) for own, other in (ratios, ratios[::-1]))


def _medians(measured: Sequence[Measured]) -> dict[str, float]:
    return {PLAIN: 1.0} | {each.candidate.name: each.ratio.median for each in measured}


def _behind(chosen_by: Mapping[str, float], measured_in: Mapping[str, float], advised: str) -> float:
    best = max(measured_in, key=lambda name: chosen_by.get(name, 0.0))
    return 1 - measured_in[advised] / measured_in[best]


def _compared(
    question: Question,
    kind: str,
    found: AdviceReport,
    chosen: Measured | None,
    measured: Sequence[Measured],
    notes: tuple[str, ...],
) -> RegretCell:
    """`chosen` is None where plain was advised."""
    ratios = {PLAIN: ALONE} | {each.candidate.name: each.ratio for each in measured}
    advised = chosen.candidate.name if chosen is not None else PLAIN
    best = max(ratios, key=lambda name: ratios[name].median)
    return RegretCell(
        kind=kind,
        temperature=question.temperature,
        readers=question.concurrency,
        verdict=found.verdict,
        advised=advised,
        predicted=chosen.predicted if chosen is not None else None,
        proven=chosen.ratio.median if chosen is not None else None,
        ratio=ratios[advised],
        best=best,
        best_ratio=ratios[best],
        regret=1 - ratios[advised].median / ratios[best].median,
        held_out=None,
        settings=len(measured),
        prompts=measured[0].prompts if measured else 0,
        notes=notes,
    )
