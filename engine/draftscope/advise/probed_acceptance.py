"""Measures acceptance on the prompts: each drafter runs at its largest size, from which the rounds of smaller sizes
follow (`drafters/policy/implied.py`). A few rounds at its smallest size are timed too: what a round costs does not
follow from a larger one.

Drafters take turns on each prompt. After `KEEP_AFTER` prompts those far behind run no more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from time import perf_counter

import numpy as np

from draftscope import drafters
from draftscope.advise.candidates import Candidate, implied, sizes_of
from draftscope.advise.observed import PromptRounds
from draftscope.base.errors import DraftscopeError
from draftscope.base.progress import Progress
from draftscope.base.steps import Steps, mapped_to
from draftscope.decode.availability import is_detour, refuse_unavailable
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.lane import Lane
from draftscope.decode.session import Session, Step
from draftscope.drafters import DrafterInfo
from draftscope.drafters.drafter import Outcome
from draftscope.drafters.options import TreeShape, nodes_in
from draftscope.drafters.policy.implied import SmallRounds
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.round_arrays import KeptStep, MeasuredRounds, timed_steps
from draftscope.measure.bench.systems import PLAIN, Case, refuse_unknown

MIN_ROUNDS = 4  # of a prompt, however slow the models are
KEEP_AFTER = 2  # prompts
RUNS = 4  # that every drafter should get: warm-up, `KEEP_AFTER` prompts, and the rounds at its smallest size
SMALL_ROUNDS = 10  # of a prompt, at a drafter's smallest size
KEEP_WITHIN = 0.7  # of the best prediction


@dataclass
class Probed:
    """One drafter's runs so far, a list entry for each prompt."""

    run: Candidate
    small: Candidate | None = None  # the other size, at which rounds are timed
    by_candidate: dict[Candidate, list[PromptRounds]] = field(default_factory=dict)
    rounds: list[MeasuredRounds] = field(default_factory=list)
    levels: list[list[int]] = field(default_factory=list)  # draft steps of each round, as `rounds`
    small_rounds: list[MeasuredRounds] = field(default_factory=list)  # of `small`
    small_levels: list[list[int]] = field(default_factory=list)
    before_ms: list[float] = field(default_factory=list)  # set-up and prefill
    ids: list[list[int]] = field(default_factory=list)  # what it wrote

    @property
    def round_ms(self) -> list[float]:
        """Milliseconds of every round."""
        return [float(ms) for rounds in self.rounds for ms in rounds.stages.sum(1)]


Rank = Callable[[Mapping[str, Probed]], Mapping[str, float]]  # each drafter's best predicted ratio
Watch = Callable[[], None]  # called every round; may raise `Cancelled`


def nobody() -> None:
    """Nobody stops it."""


def probe(
    engine: DecodingEngine,
    cases: Sequence[Case],
    able: Sequence[DrafterInfo],
    tokens: int,
    seconds: float,
    rank: Rank,
    watch: Watch = nobody,
    most: float = math.inf,
) -> Steps[int, tuple[dict[str, Probed], list[str]]]:
    """Plain and the drafters by name, on as many prompts as `seconds` allow, at least one; and notes on failures.

    Yields the number of prompts so far, before each run: within one the times between rounds count. After `most`
    seconds no further drafter is tried that was not before, once one was.
    """
    began, notes = perf_counter(), list[str]()
    probed = {PLAIN.drafter: Probed(Candidate(PLAIN.drafter))}
    probed |= {info.name: Probed(*sizes_of(info)) for info in able}
    share = seconds / (RUNS * len(probed))  # of a run: the first prompts are for all of them
    tried = dict[str, Probed]()
    for name in list(probed):
        if len(tried) > 1 and perf_counter() - began > most:
            notes.append(_not_tried(list(probed), tried))
            break
        yield 0
        yield from mapped_to(_try(engine, probed, name, Ask(cases[0], 2, share, watch), notes), 0)  # not counted
        if name in probed:
            probed[name] = tried[name] = Probed(probed[name].run, probed[name].small)
            yield 0
            yield from mapped_to(_try(engine, probed, name, Ask(cases[0], tokens, share, watch), notes), 0)
    probed = {name: result for name, result in tried.items() if name in probed}
    for number, case in enumerate(cases[1:], 1):
        yield number
        if perf_counter() - began > seconds:
            break
        if number == KEEP_AFTER:
            probed = _worth_keeping(probed, rank, notes)
        for name in list(probed):
            yield number
            trying = _try(engine, probed, name, Ask(case, tokens, share, watch), notes)
            yield from mapped_to(trying, number)
    return probed, notes


def _not_tried(names: Sequence[str], tried: Mapping[str, Probed]) -> str:
    left = ", ".join(name for name in names if name not in tried)
    return f"Not tried, because the seconds were over: {left}. Give more seconds, or choose drafters."


@dataclass(frozen=True)
class Ask:
    """One prompt: how many tokens, and after how many seconds the run may end early."""

    case: Case
    tokens: int
    seconds: float
    watch: Watch


def _try(
    engine: DecodingEngine, probed: dict[str, Probed], name: str, ask: Ask, notes: list[str]
) -> Steps[Progress, None]:
    """One run, after what its drafter chooses by is measured; a drafter that fails is left out, and a note says why."""
    try:
        for run in (probed[name].run, probed[name].small):
            if run is not None:
                yield from engine.measuring(Lane.of(engine, _settings(run, ask)))
        _run(engine, probed[name], ask)
        _time_small(engine, probed[name], ask)
    except Exception as error:
        if name == PLAIN.drafter:
            raise
        notes.append(f"{name} was left out: {' '.join(str(error).split())[:200]}")
        del probed[name]


def _worth_keeping(probed: dict[str, Probed], rank: Rank, notes: list[str]) -> dict[str, Probed]:
    ratios = rank(probed)
    best = max(ratios.values(), default=0.0)
    kept = {name: result for name, result in probed.items() if ratios.get(name, best) >= KEEP_WITHIN * best}
    notes += [
        f"{name} was left out after {KEEP_AFTER} prompts: it was predicted to be {ratios[name]:.2f} times as fast as "
        f"plain decoding, the best {best:.2f} times."
        for name in probed
        if name not in kept
    ]
    return kept


def _run(engine: DecodingEngine, probed: Probed, ask: Ask) -> None:
    """One prompt. The run may write a few tokens more, so that no draft is cut at the end."""
    run = probed.run
    session, before_ms = _session(engine, run, ask)
    rounds: dict[Candidate, list[tuple[int, int, int]]] = {entry: [] for entry in implied(run)}
    small = {entry: SmallRounds(entry.form) for entry in rounds if entry != run and entry.form is not None}
    kept, levels = [], []
    for step, kept_step in _timed(session, ask):
        kept.append(kept_step)
        levels.append(step.tree.topology.height)
        for candidate, rows in rounds.items():
            rows += _rounds(step, candidate.form, small.get(candidate))
        if len(session.transcripts[0].tokens) >= ask.tokens:
            break
    for candidate, rows in rounds.items():
        columns = [np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)]
        probed.by_candidate.setdefault(candidate, []).append(PromptRounds(*columns))
    probed.rounds.append(MeasuredRounds.of(kept))
    probed.levels.append(levels)
    probed.before_ms.append(before_ms)
    probed.ids.append(list(session.transcripts[0].tokens))


def _time_small(engine: DecodingEngine, probed: Probed, ask: Ask) -> None:
    """A few rounds at the drafter's smallest size, for their time only."""
    if probed.small is None or probed.small == probed.run:
        return
    session, _ = _session(engine, probed.small, ask)
    steps, kept = zip(*islice(_timed(session, ask), SMALL_ROUNDS), strict=True)
    probed.small_rounds.append(MeasuredRounds.of(kept))
    probed.small_levels.append([step.tree.topology.height for step in steps])


def _timed(session: Session, ask: Ask) -> Iterator[tuple[Step, KeptStep]]:
    """The timed steps, as long as there is time, at least `MIN_ROUNDS`."""
    until = perf_counter() + ask.seconds
    for count, timed in enumerate(timed_steps(session), 1):
        ask.watch()
        yield timed
        if perf_counter() > until and count >= MIN_ROUNDS:
            return


def _session(engine: DecodingEngine, run: Candidate, ask: Ask) -> tuple[Session, float]:
    """A session that has read its prompt, and the milliseconds until then."""
    began = perf_counter()
    session = engine.start_batch([list(ask.case.prompts[0])], _settings(run, ask), (0,), ends=False)
    session.prefill()
    return session, 1e3 * (perf_counter() - began)


def _settings(run: Candidate, ask: Ask) -> Settings:
    most = ask.tokens + max(nodes_in(run.form or ()), 16) + 1
    return Settings.of(
        **run.label.settings, temperature=ask.case.temperature, max_new_tokens=most, seed=ask.case.number
    )


def _rounds(step: Step, form: TreeShape | None, small: SmallRounds | None) -> list[tuple[int, int, int]]:
    """Accepted tokens, nodes and levels of each round of a draft of this form that ends with the step. `small` follows
    the steps for it, unless the form is the step's own."""
    nodes, levels = step.tree.nodes, step.tree.topology.height
    if small is None or form is None:
        return [(len(step.paths[0]), nodes, levels)]
    outcome = Outcome(step.tree, step.paths, step.last, None, None, step.verification)
    size = min(nodes, nodes_in(form)), min(levels, len(form))
    return [(took, *size) for took in small.add(outcome, step.uniforms)]


def able(engine: DecodingEngine, names: Sequence[str] = ()) -> list[DrafterInfo]:
    """The named drafters, or all that these models can run and that a server could: no synthetic ones, no person, no
    policies over others, and text drafts only where the draft has another tokenizer.

    Raises `DraftscopeError` for a named drafter that does not exist, cannot run here, or has nothing to measure, and if
    only plain decoding is named.
    """
    if names:
        refuse_unknown(names)
        infos = [drafters.find(name) for name in dict.fromkeys(names) if name != PLAIN.drafter]
        if not infos:
            raise DraftscopeError("drafters = plain: every drafter is compared with plain decoding; name another one.")
        for info in infos:
            refuse_unavailable(engine, info)
        return infos
    running = {drafter.name for drafter in engine.drafters() if drafter.available} - {PLAIN.drafter}
    return [info for name, info in drafters.known().items() if name in running and _servable(engine, info)]


def _servable(engine: DecodingEngine, info: DrafterInfo) -> bool:
    fits = info.exact and not info.synthetic and not is_detour(engine, info)
    return fits and not {"typed", "arms"} & set(info.uses)
