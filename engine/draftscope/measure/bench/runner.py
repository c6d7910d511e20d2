"""Runs a benchmark: a warm-up pass, then repeats; each goes through the cases, and each case through the systems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

from tqdm import tqdm
from transformers.utils import logging

from draftscope.base.errors import DraftscopeError
from draftscope.measure.bench.bench_plan import BenchPlan, where
from draftscope.measure.bench.round_arrays import MeasuredRounds
from draftscope.measure.bench.systems import PLAIN, Case, Label, System

Cell = tuple[Label, tuple[float, int, int | None]]

WARM_UP = -1  # the repeat that is not counted


@dataclass(frozen=True)
class BenchRun:
    """One system on one case, once."""

    label: Label
    case: Case
    repeat: int
    seconds: float  # from token ids in to token ids out
    ids: list[list[int]]  # [B]
    rounds: MeasuredRounds | None = None  # our own systems only
    cache_bytes: int | None = None
    draft_bytes: int | None = None
    before_ms: float = 0.0  # set-up and prefill, before the first round; our own systems only


class Bench:
    """Runs a plan. Afterwards `notes` says what was skipped and why."""

    def __init__(self, plan: BenchPlan, systems: Sequence[System], cases: Sequence[Case], bar: bool = True) -> None:
        single = [system.label.name for system in systems if not system.batches and max(plan.batches) > 1]
        self.notes = (
            [f"{', '.join(single)} decode one sequence at a time, so larger batches were skipped for them."]
            if single
            else []
        )
        self._plan = plan
        self._systems = systems
        self._cases = cases
        self._bar = bar
        self._failed: set[Cell] = set()

    def runs(self, warm_up: bool = True) -> list[BenchRun]:
        """Every run except warm-up, which is left out on request. Raises `DraftscopeError` if there is none."""
        return [run for group in self.groups(warm_up) for run in group]

    def groups(self, warm_up: bool = True) -> Iterator[list[BenchRun]]:
        """The same, each as soon as it is over; an empty list for one of the warm-up, and for a step of a measurement
        that comes before."""
        until = perf_counter() + self._plan.seconds if self._plan.seconds is not None else float("inf")
        none = True
        before = logging.get_verbosity()
        logging.set_verbosity_error()  # assisted generation warns about its own inner calls
        try:
            for repeat, case in self._groups(warm_up):
                if perf_counter() > until:
                    self.notes.append(self._stopped(repeat, case))
                    break
                for run in self._group(repeat, case):
                    counts = run is not None and repeat != WARM_UP
                    none = none and not counts
                    yield [run] if run is not None and counts else []
        finally:
            logging.set_verbosity(before)
        if none:
            raise DraftscopeError(f"Nothing was measured. {' '.join(self.notes)}")

    def _groups(self, warm_up: bool) -> Iterator[tuple[int, Case]]:
        repeats = range(WARM_UP if warm_up else 0, self._plan.repeats)
        hidden = None if self._bar else True  # None: where stderr is no terminal
        total = len(repeats) * len(self._cases)
        with tqdm(total=total, desc="bench", unit="text", leave=False, disable=hidden) as bar:
            for repeat in repeats:
                for case in self._cases:
                    yield repeat, case
                    bar.update()

    def _group(self, repeat: int, case: Case) -> Iterator[BenchRun | None]:
        """All systems on one case, plain first, and None after each step of what one must measure first. A system that
        fails is skipped in this cell from then on."""
        for system in self._systems:
            able = system.batches or case.batch == 1
            if not able or {(system.label, case.cell), (PLAIN, case.cell)} & self._failed:
                continue
            try:
                for _ in system.measuring(case, self._plan.tokens):
                    yield None
                yield self._run(system, case, repeat)
            except Exception as error:  # a peer may raise anything; the others continue
                self._failed.add((system.label, case.cell))
                self.notes.append(_failure(system, case, error))

    def _run(self, system: System, case: Case, repeat: int) -> BenchRun:
        """One run. Every repeat, including warm-up, has its own seed."""
        write = system.prepare(case, self._plan.tokens, seed=repeat + 1)
        began = perf_counter()
        written = write()
        seconds = perf_counter() - began
        lengths = [len(ids) for ids in written.ids]
        if lengths != [self._plan.tokens] * case.batch:
            raise RuntimeError(f"it wrote {lengths} tokens instead of {case.batch} times {self._plan.tokens}")
        rounds = MeasuredRounds.of(written.kept) if written.kept else None
        more = written.cache_bytes, written.draft_bytes, written.before_ms
        return BenchRun(system.label, case, repeat, seconds, written.ids, rounds, *more)

    def _stopped(self, repeat: int, case: Case) -> str:
        done = "within the warm-up" if repeat == WARM_UP else f"in repeat {repeat + 1} of {self._plan.repeats}"
        return (
            f"Stopped after {self._plan.seconds:g} s, {done}, before '{case.kind}' at T = {case.temperature:g}; "
            "let the machine do nothing else, choose fewer drafters, kinds or tokens, or do not use --quick."
        )


def _failure(system: System, case: Case, error: Exception) -> str:
    reason = " ".join(str(error).split())[:240].rstrip(".")
    kind = "" if isinstance(error, DraftscopeError) else f"{type(error).__name__}: "
    return f"{system.label.name} was skipped at {where(*case.cell)}: {kind}{reason}."
