"""Runs candidates against plain decoding, in turn within each repeat of a prompt as in a benchmark, and measures the
objective's ratio: medians with intervals over prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from draftscope.advise.candidates import Candidate
from draftscope.advise.model import TAIL, value
from draftscope.advise.probe import Watch, nobody
from draftscope.advise.question import Objective, Question
from draftscope.advise.verdict import Measured
from draftscope.base.steps import Steps
from draftscope.decode.engine import DecodingEngine
from draftscope.measure.bench.plan import BenchPlan
from draftscope.measure.bench.rows import loop_share
from draftscope.measure.bench.runner import Bench, BenchRun
from draftscope.measure.bench.statistics import LEVEL, LOOP, RESAMPLES, Interval, bootstrap
from draftscope.measure.bench.systems import PLAIN, Case, DrafterSystem

Pair = tuple[BenchRun, BenchRun]  # a candidate's run, and plain's in the same repeat of the same prompt


def run(
    engine: DecodingEngine,
    plan: BenchPlan,
    contenders: Sequence[Candidate],
    cases: Sequence[Case],
    warm_up: bool,
    watch: Watch = nobody,
) -> Steps[int, tuple[list[BenchRun], list[str]]]:
    """Plain and the contenders in turn, until the plan's seconds are over; and notes on what was skipped.

    Yields the number of runs so far.
    """
    systems = [DrafterSystem(engine, label, watch) for label in (PLAIN, *(each.label for each in contenders))]
    bench = Bench(plan, systems, cases)
    runs: list[BenchRun] = []
    for group in bench.groups(warm_up):
        runs += group
        yield len(runs)
    return runs, [note for note in bench.notes if not note.startswith("Stopped after")]


def measured(question: Question, runs: Sequence[BenchRun], predicted: Mapping[Candidate, float]) -> list[Measured]:
    """Every candidate of `predicted` that ran beside plain; texts that loop do not count, unless all do."""
    plain = {(run.case, run.repeat): run for run in runs if run.label == PLAIN}
    found = []
    for candidate, ratio in predicted.items():
        own = [run for run in runs if run.label == candidate.label and (run.case, run.repeat) in plain]
        pairs: list[Pair] = [(run, plain[run.case, run.repeat]) for run in own]
        kept = [pair for pair in pairs if max(map(loop_share, pair)) <= LOOP] or pairs
        if kept:
            prompts = len({run.case for run, _ in kept})
            tokens = len(kept[0][0].ids[0])
            found.append(Measured(candidate, ratio_of(question, kept), ratio, prompts, len(kept), tokens))
    return found


def ratio_of(question: Question, pairs: Sequence[Pair]) -> Interval:
    """Plain's value of the objective over the candidate's. The interval is over prompts; over repeats if there is one
    prompt. Of a tail all answers are taken together, since a quantile of a single run says little."""
    groups: dict[Case, list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(pair[0].case, []).append(pair)
    by_prompt = list(groups.values()) if len(groups) > 1 else [[pair] for pair in pairs]
    if question.objective is Objective.TAIL:
        return _tail(by_prompt)
    ratios = [
        float(
            np.median(
                [value(question, finish(theirs)[None]) / value(question, finish(own)[None]) for own, theirs in group]
            )
        )
        for group in by_prompt
    ]
    return bootstrap([ratios])


def finish(run: BenchRun) -> NDArray[np.float64]:
    """[B]: milliseconds after which each sequence of a run was complete, prefill included."""
    if run.rounds is None or run.case.batch == 1:
        return np.full(run.case.batch, 1e3 * run.seconds)
    rounds = run.rounds.ms
    ends = 1e3 * run.seconds - rounds.sum() + np.cumsum(rounds)
    last = len(rounds) - 1 - (run.rounds.emitted[::-1] > 0).argmax(0)
    return np.asarray(ends[last], dtype=float)


def _tail(groups: Sequence[Sequence[Pair]]) -> Interval:
    times = [np.stack([np.concatenate([finish(pair[side]) for pair in group]) for side in (1, 0)]) for group in groups]

    def ratio(picked: Sequence[int]) -> float:
        theirs, own = np.quantile(np.concatenate([times[index] for index in picked], 1), TAIL, axis=1)
        return float(theirs / own)

    draws = np.random.default_rng(0).integers(0, len(times), (RESAMPLES, len(times)))
    low, high = np.quantile([ratio(picked.tolist()) for picked in draws], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(ratio(range(len(times))), float(low), float(high))
