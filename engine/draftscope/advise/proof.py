"""Runs candidates against plain decoding, in turn within each repeat of a prompt as in a benchmark, until the answer is
clear or the time is over, and measures the objective's ratio on these prompts.

A ratio is the tokens a round of the prompts over the cost of a round. The prompts' tokens are known (above temperature
0 up to the chance of the draws); the cost of a round is nearly the same in every run, so that what differs between runs
is noise. Its trimmed mean forgets runs that something disturbed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from draftscope.advise.advice_verdict import LOOK, MIN_RUNS, Measured
from draftscope.advise.candidates import Candidate
from draftscope.advise.probed_acceptance import Watch, nobody
from draftscope.advise.question import Objective, Question
from draftscope.advise.speed_model import TAIL, Predicted, value
from draftscope.base.cores import Company, OtherCores
from draftscope.base.steps import Steps
from draftscope.decode.engine import DecodingEngine
from draftscope.measure.bench.bench_plan import BenchPlan
from draftscope.measure.bench.rows import Paired, counted, paired
from draftscope.measure.bench.runner import Bench, BenchRun
from draftscope.measure.bench.statistics import LEVEL, Interval, resampled
from draftscope.measure.bench.systems import PLAIN, Case, DrafterSystem

TRIMMED = 0.2  # of the runs, at either end
Clear = Callable[[Sequence[BenchRun]], bool]  # whether runs are enough


def run(
    engine: DecodingEngine,
    plan: BenchPlan,
    contenders: Sequence[Candidate],
    cases: Sequence[Case],
    warm_up: bool,
    watch: Watch = nobody,
    clear: Clear = lambda _: False,
) -> Steps[list[BenchRun], tuple[list[BenchRun], list[str]]]:
    """Plain and the contenders in turn, until the plan's seconds are over or the runs are `clear`; and notes on what
    was skipped. A turn in which other processes took a core that was needed does not count, unless all were such.

    Yields the runs so far.
    """
    systems = [DrafterSystem(engine, label, watch) for label in (PLAIN, *(entry.label for entry in contenders))]
    bench = Bench(plan, systems, cases, bar=False)
    kept: list[BenchRun] = []
    lost: list[BenchRun] = []
    disturbed, threads = 0, torch.get_num_threads() if engine.target.device.type == "cpu" else 1
    for turn, lap in _turns(bench.groups(warm_up)):
        quiet = not Company.of([lap], threads).disturbs
        (kept if quiet else lost).extend(turn)
        disturbed += bool(turn) and not quiet
        yield kept
        if turn and clear(kept):
            break
    notes = [note for note in bench.notes if not note.startswith("Stopped after")]
    if disturbed:
        count = "did not count" if kept else "count nevertheless, since there was no other"
        who = "other processes took cores that were needed; stop other work for a faster answer."
        notes.append(f"{disturbed} of the turns {count}: {who}")
    return kept or lost, notes


def _turns(groups: Iterable[list[BenchRun]]) -> Iterable[tuple[list[BenchRun], float]]:
    """The runs of all systems on one prompt, and the cores that other processes used meanwhile."""
    turn: list[BenchRun] = []
    meter = OtherCores()
    for group in groups:
        begins = turn and group and (group[0].case, group[0].repeat) != (turn[0].case, turn[0].repeat)
        if begins:
            yield turn, meter.lap()
            turn = []
        turn = turn + group
        if not group:  # of the warm-up
            yield [], meter.lap()
    if turn:
        yield turn, meter.lap()


def measured(
    question: Question, runs: Sequence[BenchRun], predicted: Mapping[Candidate, Predicted], texts: int = 0
) -> list[Measured]:
    """Every candidate of `predicted` that ran beside plain; texts that loop do not count, unless all do. `texts`: how
    many prompts there are; some may not have been run."""
    every = paired(runs)
    results = []
    for candidate, foreseen in predicted.items():
        if kept := counted([pair for pair in every if pair.run.label == candidate.label]):
            results.append(_measured(question, foreseen, kept, texts))
    return results


def _measured(question: Question, foreseen: Predicted, pairs: Sequence[Paired], texts: int) -> Measured:
    results = Ratios.of(question, pairs)
    tail = question.objective is Objective.TAIL
    return Measured(
        candidate=foreseen.candidate,
        ratio=_tail(pairs, LEVEL) if tail else results.interval(LEVEL, texts),
        look=_tail(pairs, LOOK) if tail else results.interval(LOOK, texts),
        predicted=foreseen.ratio.median,
        predicted_tau=foreseen.tau.median,
        prompts=len(set(results.cases)),
        runs=len(pairs),
        tokens=len(pairs[0][0].ids[0]),
        tau=float(np.exp(np.log(results.taus).mean())) if pairs[0][0].rounds else None,
        by_kind={kind: results.of_kind(kind).interval(LEVEL).median for kind in dict.fromkeys(results.kinds)},
    )


@dataclass(frozen=True)
class Ratios:
    """Plain's value of the objective over the candidate's in pairs of runs. What counts of them: logarithms of their
    ratios, tokens a round, and the chance in these."""

    cases: list[Case]
    logs: NDArray[np.float64]
    taus: NDArray[np.float64]
    chances: NDArray[np.float64]  # variance of the logarithm of a tau by chance: none at temperature 0

    @classmethod
    def of(cls, question: Question, pairs: Sequence[Paired]) -> Ratios:
        taus = np.array([_tau(run) for run, _ in pairs])
        logs = np.array([_log_ratio(question, pair) for pair in pairs])
        return cls([run.case for run, _ in pairs], logs, taus[:, 0], taus[:, 1] * (question.temperature > 0))

    @property
    def kinds(self) -> list[str]:
        return [case.kind for case in self.cases]

    def of_kind(self, kind: str) -> Ratios:
        at = np.array([entry == kind for entry in self.kinds])
        cases = [case for case in self.cases if case.kind == kind]
        return Ratios(cases, self.logs[at], self.taus[at], self.chances[at])

    def interval(self, level: float, texts: int = 0) -> Interval:
        prompts = {case: place for place, case in enumerate(dict.fromkeys(self.cases))}
        whose = np.array([prompts[case] for case in self.cases])
        by_prompt = np.bincount(whose, np.log(self.taus)) / np.bincount(whose)
        unseen = np.var(by_prompt) / len(prompts) * (1 - len(prompts) / max(texts, len(prompts)))
        chance = self.chances.sum() / len(self.cases) ** 2
        cost, reach = _trimmed(self.logs - np.log(self.taus), level, float(np.sqrt(chance + unseen)))
        middle = float(by_prompt.mean()) + cost
        return Interval(*(float(np.exp(entry)) for entry in (middle, middle - reach, middle + reach)))


def _trimmed(values: NDArray[np.float64], level: float, more: float) -> tuple[float, float]:
    """The trimmed mean and how far its interval reaches (Tukey and McLaughlin), with `more` as a further standard
    error; the mean of fewer than `MIN_RUNS`."""
    from scipy.special import stdtrit  # not at the top: it takes longer to import than all that needs no statistics

    count, ordered = len(values), np.sort(values)
    cut = int(TRIMMED * count) if count >= MIN_RUNS else 0
    middle = float(ordered[cut : count - cut].mean())
    if count == 1:
        return middle, 0.0
    winsorized = ordered.clip(ordered[cut], ordered[-1 - cut])
    error = winsorized.std(ddof=1) / ((1 - 2 * cut / count) * np.sqrt(count))
    whole = float(np.hypot(error, more)) or 1e-9
    freedom = (count - 2 * cut - 1) * (whole / max(error, 1e-9)) ** 4  # Welch and Satterthwaite: `more` is known
    return middle, float(stdtrit(freedom, (1 + level) / 2) * whole)


def _tau(run: BenchRun) -> tuple[float, float]:
    """Tokens a round of a sequence, and the variance of its logarithm by chance; 1 where rounds are not known."""
    if run.rounds is None:
        return 1.0, 0.0
    emitted = run.rounds.emitted[run.rounds.emitted > 0]
    tau = float(emitted.mean())
    return tau, float(emitted.var() / len(emitted)) / tau**2


def _log_ratio(question: Question, pair: Paired) -> float:
    ours, plain = (value(question, finish(run)[None]) for run in pair)
    return float(np.log(plain / ours))


def finish(run: BenchRun) -> NDArray[np.float64]:
    """[B]: milliseconds after which each sequence of a run was complete, prefill included."""
    if run.rounds is None or run.case.batch == 1:
        return np.full(run.case.batch, 1e3 * run.seconds)
    rounds = run.rounds.ms
    ends = 1e3 * run.seconds - rounds.sum() + np.cumsum(rounds)
    last = len(rounds) - 1 - (run.rounds.emitted[::-1] > 0).argmax(0)
    return np.asarray(ends[last], dtype=float)


def _tail(pairs: Sequence[Paired], level: float) -> Interval:
    """The interval is over prompts; over repeats if there is one prompt."""
    cases = list(dict.fromkeys(run.case for run, _ in pairs))
    groups = [[pair for pair in pairs if pair[0].case == case] for case in cases]
    groups = groups if len(groups) > 1 else [[pair] for pair in pairs]
    times = [np.stack([np.concatenate([finish(pair[side]) for pair in group]) for side in (1, 0)]) for group in groups]

    def ratio(picked: Sequence[int]) -> float:
        theirs, ours = np.quantile(np.concatenate([times[index] for index in picked], 1), TAIL, axis=1)
        return float(theirs / ours)

    drawn = [ratio(picked.tolist()) for picked in resampled(len(times))]
    return Interval.of(ratio(range(len(times))), drawn, level)
