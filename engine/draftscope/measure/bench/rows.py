"""From runs to rows (one system on one kind of text at one temperature, batch and context) and headlines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from types import MappingProxyType
from typing import NamedTuple

from draftscope.base.text import same_start
from draftscope.measure.bench.round_arrays import MeasuredRounds, PartTimes, Prediction, predict
from draftscope.measure.bench.runner import BenchRun
from draftscope.measure.bench.statistics import LOOP, Interval, bootstrap, repeated_4grams
from draftscope.measure.bench.systems import PLAIN, Label
from draftscope.measure.joint import Distance

Distances = Mapping[tuple[Label, float], Distance]
NO_DISTANCES: Distances = MappingProxyType({})

PARTS = 8  # of the generated length, in `ms_per_token`


@dataclass(frozen=True)
class BenchRow:
    """One system in one cell, over all prompts and repeats. Times of whole runs include the prefill.

    `ratio_to_plain` is tokens/s divided by plain's in the same repeat of the same prompt, over all runs; `looping` of
    the `runs` loop. Rows of other programs lack what can only be known of our own rounds.
    """

    name: str  # the name in tables and plots, with gamma or shape
    system: str
    drafter: str
    gamma: int | None
    shape: tuple[int, ...] | None
    length: str | None  # how the length of a chain is chosen, if that happens while drafting
    rule: str | None  # for drawn chains, if not block verification
    lossy: bool  # the rule changes the output's distribution by design
    kind: str
    temperature: float
    batch: int
    context: int | None  # tokens of every prompt, if the plan sets them
    tokens: int  # written by each sequence
    runs: int
    seconds: list[float]
    tokens_per_s: float  # of all sequences together; median
    ratio_to_plain: Interval
    ratio_while_full: Interval | None  # until a batch's first sequence ends, without prefill; None for one sequence
    repeated_4grams: float  # mean over runs
    looping: int
    tokens_vs_plain: str  # equal, differs at n (`first_difference`), or sampled
    equal_runs: int | None  # None if tokens are sampled
    first_difference: int | None  # earliest differing token of any run; None if all are equal or sampled
    mean_acceptance_length: float | None = None  # 1 + accepted / rounds that drafted
    conditional_alpha: list[float | None] = field(default_factory=list)  # by position: accepted / reached and drafted
    predicted_ratio: float | None = None  # of whole runs: tau / (gamma c + v + o), and the prefill
    prediction: Prediction | None = None
    stage_ms: dict[str, float] = field(default_factory=dict)  # of a round
    between_ms: float | None = None  # of a round, beside its stages
    before_ms: float | None = None  # set-up and prefill
    ms_per_token: list[float] = field(default_factory=list)  # by eighths of the text, without prefill; medians
    gap_ms: dict[str, float] = field(default_factory=dict)  # between tokens: p50, p99, sd; of a single sequence
    cache_bytes: int | None = None  # keys and values at the end of the longest text, computed from shapes
    draft_bytes: int | None = None  # the draft models' part of it, or the size of their constant states
    distance: Distance | None = None  # of a lossy rule's joint distribution from the target's above T = 0, sampled


@dataclass(frozen=True)
class Headline:
    """One system over all kinds of text: the median of the kinds' medians, without loops. None if all runs loop."""

    name: str  # in tables and plots, with gamma or shape
    system: str
    drafter: str
    gamma: int | None
    shape: tuple[int, ...] | None
    lossy: bool
    temperature: float
    batch: int
    context: int | None
    ratio_to_plain: Interval | None
    kinds: int  # with a run that does not loop
    of_kinds: int
    looping: int  # skipped runs
    runs: int


class Paired(NamedTuple):
    """A run, and another one, which is plain's where nothing else is said, in the same repeat of the same prompt."""

    run: BenchRun
    plain: BenchRun

    @property
    def ratio(self) -> float:
        return speed(self.run) / speed(self.plain)

    @property
    def ratio_while_full(self) -> float | None:
        """Over the rounds before any sequence had ended; None for another program, whose rounds are unknown."""
        if self.run.rounds is None or self.plain.rounds is None:
            return None
        return self.run.rounds.tokens_per_s_while_full() / self.plain.rounds.tokens_per_s_while_full()

    @property
    def loops(self) -> bool:
        return max(loop_share(self.run), loop_share(self.plain)) > LOOP

    @property
    def differs_at(self) -> int | None:
        """The first token of any sequence that differs from plain's; None if there is none."""
        both = zip(self.run.ids, self.plain.ids, strict=True)
        return min((same_start(ours, theirs) for ours, theirs in both if ours != theirs), default=None)


def speed(run: BenchRun) -> float:
    """Tokens per second, over all sequences."""
    return sum(len(ids) for ids in run.ids) / run.seconds


def loop_share(run: BenchRun) -> float:
    """The share of repeated 4-grams, averaged over the sequences."""
    return fmean(repeated_4grams(ids) for ids in run.ids)


def paired(runs: Sequence[BenchRun]) -> list[Paired]:
    """Every run that has plain's beside it."""
    plain = {(run.case, run.repeat): run for run in runs if run.label == PLAIN}
    return [Paired(run, plain[run.case, run.repeat]) for run in runs if (run.case, run.repeat) in plain]


def counted(pairs: Sequence[Paired]) -> Sequence[Paired]:
    """Those whose texts do not loop, or all where every one does."""
    return [pair for pair in pairs if not pair.loops] or pairs


def rows(runs: Sequence[BenchRun], distances: Distances = NO_DISTANCES) -> list[BenchRow]:
    """A row for every system, kind and cell, in the order of the runs; `distances` by label and temperature."""
    by_row: dict[object, list[Paired]] = {}
    for pair in paired(runs):
        case = pair.run.case
        by_row.setdefault((case.cell, case.kind, pair.run.label), []).append(pair)
    return [_row(pairs, distances) for pairs in by_row.values()]


def headlines(runs: Sequence[BenchRun]) -> list[Headline]:
    """A headline for every system and cell, in the order of the runs."""
    by_cell: dict[object, list[Paired]] = {}
    for pair in paired(runs):
        by_cell.setdefault((pair.run.case.cell, pair.run.label), []).append(pair)
    return [_headline(pairs) for pairs in by_cell.values()]


def _row(pairs: Sequence[Paired], distances: Distances) -> BenchRow:
    run, sampled = pairs[0].run, pairs[0].run.case.temperature > 0
    label, case = run.label, run.case
    ats = [pair.differs_at for pair in pairs]
    full = [ratio for pair in pairs if (ratio := pair.ratio_while_full) is not None]
    row = BenchRow(
        **vars(label),
        name=label.name,
        lossy=label.lossy,
        kind=case.kind,
        temperature=case.temperature,
        batch=case.batch,
        context=case.context,
        tokens=len(run.ids[0]),
        runs=len(pairs),
        seconds=[pair.run.seconds for pair in pairs],
        tokens_per_s=median(speed(pair.run) for pair in pairs),
        ratio_to_plain=bootstrap([[pair.ratio for pair in pairs]]),
        ratio_while_full=bootstrap([full]) if case.batch > 1 and full else None,
        repeated_4grams=fmean(loop_share(pair.run) for pair in pairs),
        looping=sum(pair.loops for pair in pairs),
        tokens_vs_plain="sampled" if sampled else _compared(ats),
        equal_runs=None if sampled else ats.count(None),
        first_difference=None if sampled else min((at for at in ats if at is not None), default=None),
        cache_bytes=max((pair.run.cache_bytes for pair in pairs if pair.run.cache_bytes is not None), default=None),
        draft_bytes=max((pair.run.draft_bytes for pair in pairs if pair.run.draft_bytes is not None), default=None),
        distance=distances.get((label, case.temperature)),
    )
    return _with_rounds(row, pairs)


def _with_rounds(row: BenchRow, pairs: Sequence[Paired]) -> BenchRow:
    """Adds what can only be known of our own rounds."""
    ours, plain = part_times([pair.run for pair in pairs]), part_times([pair.plain for pair in pairs])
    if ours is None or plain is None:
        return row
    rounds, prediction = ours.rounds, predict(ours, plain, row.tokens)
    return replace(
        row,
        mean_acceptance_length=rounds.mean_acceptance_length(),
        conditional_alpha=rounds.conditional_alpha(),
        predicted_ratio=prediction.ratio,
        prediction=prediction,
        stage_ms=rounds.stage_ms(),
        between_ms=rounds.between_ms,
        before_ms=ours.before_ms,
        gap_ms=rounds.gap_ms() if row.batch == 1 else {},
        ms_per_token=_medians(
            [pair.run.rounds.ms_per_token(min(PARTS, row.tokens)) for pair in pairs if pair.run.rounds is not None]
        ),
    )


def part_times(runs: Sequence[BenchRun]) -> PartTimes | None:
    """All rounds, and the median before the first; None for another program."""
    rounds = [run.rounds for run in runs if run.rounds is not None]
    return PartTimes(MeasuredRounds.joined(rounds), median(run.before_ms for run in runs)) if rounds else None


def _headline(pairs: Sequence[Paired]) -> Headline:
    label, case = pairs[0].run.label, pairs[0].run.case
    by_kind: dict[str, list[float]] = {}
    for pair in pairs:
        kept = by_kind.setdefault(pair.run.case.kind, [])
        if not pair.loops:
            kept.append(pair.ratio)
    ratios = [kind_ratios for kind_ratios in by_kind.values() if kind_ratios]
    return Headline(
        name=label.name,
        system=label.system,
        drafter=label.drafter,
        gamma=label.gamma,
        shape=label.shape,
        lossy=label.lossy,
        temperature=case.temperature,
        batch=case.batch,
        context=case.context,
        ratio_to_plain=bootstrap(ratios) if ratios else None,
        kinds=len(ratios),
        of_kinds=len(by_kind),
        looping=sum(pair.loops for pair in pairs),
        runs=len(pairs),
    )


def _compared(ats: Sequence[int | None]) -> str:
    differing = [at for at in ats if at is not None]
    return f"differs at {min(differing)}" if differing else "equal"


def _medians(lists: Sequence[Sequence[float]]) -> list[float]:
    """The median at each position."""
    return [median(values) for values in zip(*lists, strict=True)]
