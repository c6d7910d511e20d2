"""The whole advice: probe, predict, screen, prove, decide; within the question's seconds."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, zip_longest
from statistics import fmean
from time import perf_counter

import torch

from draftscope import drafters
from draftscope.advise import limits, proof, sentences, servers
from draftscope.advise.advice_verdict import AdviceDecision, AtTemperature, Measured, Verdict, clear, decide
from draftscope.advise.candidates import Candidate
from draftscope.advise.fitted import fitted, noise, prefill
from draftscope.advise.observed import Observed, conditional_alpha
from draftscope.advise.probed_acceptance import Probed, Watch, able, nobody, probe
from draftscope.advise.probed_costs import ProbedCosts, probed_costs
from draftscope.advise.question import Asked, Objective, Question
from draftscope.advise.report import AdviceReport, Advised
from draftscope.advise.round_costs import CalibratedCosts
from draftscope.advise.speed_model import Predicted, PrefillTimes, predict, steady_ratio
from draftscope.advise.surface import Surface, surface
from draftscope.advise.what_if import Sizes
from draftscope.base.cores import Company, OtherCores
from draftscope.base.costs import PLAIN, Calibration
from draftscope.base.errors import DisturbedError, DraftscopeError
from draftscope.base.progress import Progress, Watcher, unseen
from draftscope.base.prompts import Prompt
from draftscope.base.steps import Steps, last, mapped, spread
from draftscope.decode.calibration import foreseen_s, weight_bytes
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.pair import NamedHead
from draftscope.drafters import DrafterInfo
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.bench_plan import BenchPlan
from draftscope.measure.bench.cases import cases
from draftscope.measure.bench.report import machine
from draftscope.measure.bench.runner import BenchRun
from draftscope.measure.bench.statistics import LOOP, repeated_4grams
from draftscope.measure.bench.systems import Case
from draftscope.servers.programs.program import ScheduleRange

ACCEPTANCE, PROOF = "acceptance on these prompts", "whole runs, in turn with plain decoding"  # what is measured
PROBING, SCREENING = 0.3, 0.2  # shares of the time; the proof has the rest
TRYING = 0.5  # of the time: after it no further drafter is tried, unless costs are waited for or drafters are named
MIN_PROOF = 0.1  # of the time, even if the machine was slower than foreseen
CONTENDERS, EACH = 4, 2  # candidates that are screened, and of one drafter at most
NEAR = 0.85  # of the best prediction: those below are not screened
PROBE_TOKENS = 128  # of an answer, at most: whether it loops, and what is accepted, changes from its start to its end
SPARE = 32  # tokens beyond an answer: the probe does not cut its last draft
MIN_TOKENS = 24  # of an answer in the proof
ENOUGH = 24  # prompts: answers are cut so that as many can be run once
MAX_REPEATS = 20
TEMPERATURES = (0.0, 1.0)  # at which an answer should hold
MAX_DOUBTS = 2  # that are said


@dataclass(frozen=True)
class Measurements:
    """What probing found: acceptance, costs and prefill."""

    observed: Mapping[Candidate, Observed]
    costs: CalibratedCosts | ProbedCosts
    prefill: PrefillTimes
    prompt: int  # tokens of a prompt, in the mean


@dataclass(frozen=True)
class Reading:
    """How probing is read: by the costs of this machine, or without them by the rounds that were probed."""

    question: Question
    cases: Sequence[Case]
    calibration: Calibration | None

    @property
    def prompt(self) -> float:
        """Tokens of a prompt, in the mean."""
        return fmean(len(case.prompts[0]) for case in self.cases)

    @property
    def context(self) -> int:
        """In the middle of an answer."""
        return round(self.prompt + self.question.length / 2)

    def of(self, probed: Mapping[str, Probed], keep: Sequence[int]) -> Measurements:
        """By the prompts with these indices."""
        calibration = self.calibration
        costs = probed_costs(probed) if calibration is None else fitted(calibration, probed, self.context)
        return Measurements(_observed(probed, keep), costs, prefill(probed), round(self.prompt))

    def rank(self, probed: Mapping[str, Probed]) -> Mapping[str, float]:
        """Each drafter's best predicted ratio."""
        known = self.of(probed, range(len(self.cases)))
        ratios = [
            (steady_ratio(entry, rounds, known.costs, self.question.concurrency), entry.drafter)
            for entry, rounds in known.observed.items()
        ]
        return {drafter: ratio for ratio, drafter in sorted(ratios)}


def advise(
    engine: DecodingEngine,
    question: Question,
    prompts: Mapping[str, Sequence[Prompt]],
    names: Sequence[str] = (),
    notes: Sequence[str] = (),
    watch: Watcher = unseen,
) -> AdviceReport:
    """Answers `question` for these models and prompts, comparing the drafters `names` or all that can run.

    The calibration is read, or measured first, outside the question's seconds. Raises `DraftscopeError` for prompts
    that cannot be used, a context that is too long, drafters that cannot run here, and costs that cannot be trusted.
    """

    so_far = ""

    def see(now: Advised | Progress) -> None:
        nonlocal so_far
        if isinstance(now, Advised):
            so_far = now.so_far
        else:
            watch(replace(now, doing=", ".join(filter(None, (now.doing, so_far)))))

    return last(advising(engine, question, prompts, names, notes, waits=True), see)


def advising(
    engine: DecodingEngine,
    question: Question,
    prompts: Mapping[str, Sequence[Prompt]],
    names: Sequence[str] = (),
    notes: Sequence[str] = (),
    watch: Watch = nobody,
    waits: bool = False,
) -> Steps[Advised | Progress, AdviceReport]:
    """The same step by step. A timed run is never interrupted for others: within one `watch` is called every round, and
    may raise `Cancelled`. Unless it `waits` for this machine's costs, those that are not known yet are taken from the
    rounds on the prompts, and what would need them is left out of the report."""
    infos = _comparable(engine, question, names)
    single, many, unusable = cases_of(engine, question, prompts)
    compared = [info.name for info in infos] if names else []
    calibration = engine.known_costs(compared)
    if calibration is None and waits:
        calibration = yield from _calibrated(engine, compared, question)
    infos, waiting = (infos, []) if calibration is not None else without_costs(infos)
    until = perf_counter() + question.seconds
    reading = Reading(question, single, calibration)
    trying_s = math.inf if waits or names else TRYING * question.seconds
    probed, failed, busy = yield from _probed(engine, reading, infos, trying_s, until, watch)
    keep, looping = _without_loops(probed[PLAIN])
    evidence = reading.of(probed, keep)
    predicted = predict(question, evidence.observed, evidence.costs, evidence.prefill)
    if not predicted:
        raise DraftscopeError(f"No drafter could be measured. {' '.join(failed)}")
    yield Advised(so_far=sentences.foreseen(predicted[0]))
    texts = [*(many[index] for index in keep), *many[len(probed[PLAIN].ids) :]]  # then those that were not probed
    measured, more = yield from _proven(engine, question, predicted, evidence, texts, until, watch)
    others = yield from _at_other_temperatures(engine, question, predicted, measured, many, until, watch)
    all_notes = [*notes, *unusable, *waiting, *failed, *busy, *looping, *more, *_without_drafter(engine)]
    report = _reported(engine, question, predicted, measured, others, evidence, all_notes)
    if calibration is not None:
        return report
    return replace(report, costs_s=foreseen_s(engine, evidence.costs.plain(1) / 1e3, compared))


def advised(engine: DecodingEngine, request: Asked, watch: Watch) -> Iterator[Advised | Progress]:
    """`advising` as events for a page. The last one has the report."""
    prompts = {kind: [Prompt(kind, text) for text in texts] for kind, texts in request.prompts.items()}
    report = yield from advising(engine, request.question, prompts, request.drafters, watch=watch, waits=request.waits)
    yield Advised(report=json.loads(report.as_json()))


def _comparable(engine: DecodingEngine, question: Question, names: Sequence[str]) -> list[DrafterInfo]:
    """The drafters `names`, or all that can run here. Raises `DraftscopeError` where the question cannot be asked."""
    infos = able(engine, names)
    if not infos:
        raise DraftscopeError("No drafter can run on these models, so there is nothing to decide; load a draft model.")
    if question.concurrency > 1 and not engine.batches:
        raise DraftscopeError(
            f"concurrency = {question.concurrency}: these models decode one sequence at a time; ask for one."
        )
    return infos


def _probed(
    engine: DecodingEngine,
    reading: Reading,
    infos: Sequence[DrafterInfo],
    trying_s: float,
    until: float,
    watch: Watch,
) -> Steps[Progress, tuple[Mapping[str, Probed], list[str], list[str]]]:
    """What was measured of each drafter, and notes: on those that failed, and on what else ran here meanwhile."""
    question, calibration, meter = reading.question, reading.calibration, OtherCores()
    tokens, probing_s = min(question.length, PROBE_TOKENS), PROBING * question.seconds
    probing = probe(engine, reading.cases, promising(infos), tokens, probing_s, reading.rank, watch, trying_s)
    probed, failed = yield from mapped(probing, lambda _: _now(ACCEPTANCE, question, until))
    company = Company.of([meter.lap()], torch.get_num_threads() if engine.target.device.type == "cpu" else 1)
    calibrated_ms = None if calibration is None else calibration.round_ms(PLAIN, 0, 0, 1, reading.context)
    return probed, failed, noise(company, probed[PLAIN].round_ms, calibrated_ms)


def promising(infos: Sequence[DrafterInfo]) -> list[DrafterInfo]:
    """Those with a trained head first, then those with a draft model, then the others."""
    return sorted(infos, key=lambda info: (not info.needs_head, not info.needs_draft))


def without_costs(infos: Sequence[DrafterInfo]) -> tuple[list[DrafterInfo], list[str]]:
    """The drafters that do not choose by what rounds cost; and a note on those that do.

    Raises `DraftscopeError` where there is no other.
    """
    usual = {info.name: Settings.of(**Candidate(info.name).label.settings) for info in infos}
    waiting = [i for i in infos if i.chooses_cost(usual[i.name]) or i.chooses_shape(usual[i.name])]
    able_now = [info for info in infos if info not in waiting]
    if not waiting:
        return able_now, []
    names = ", ".join(info.name for info in waiting)
    if not able_now:
        raise DraftscopeError(
            f"{names} choose by this machine's costs, which are not measured yet; compare another drafter, or measure "
            "the costs first."
        )
    return able_now, [f"Left out until this machine's costs are measured, by which they choose: {names}."]


def _calibrated(engine: DecodingEngine, names: Sequence[str], question: Question) -> Steps[Progress, Calibration]:
    """The costs of the drafters `names` or of all. Raises `DisturbedError` where they cannot be trusted."""

    def now(at: Progress) -> Progress:
        return replace(at, seconds_left=None if at.seconds_left is None else at.seconds_left + question.seconds)

    calibration = yield from mapped(engine.calibrated(names), now)
    if calibration.doubts:
        engine.forget_costs()
        raise DisturbedError(
            f"{' '.join(calibration.doubts[:MAX_DOUBTS])} Advice would build on these costs of rounds; stop other "
            "work on this machine and ask again."
        )
    return calibration


def _now(doing: str, question: Question, until: float) -> Progress:
    """How far it is, in the question's seconds."""
    left = max(0.0, until - perf_counter())
    return Progress(doing, min(max(1 - left / question.seconds, 0.0), 0.99), left)


def cases_of(
    engine: DecodingEngine, question: Question, prompts: Mapping[str, Sequence[Prompt]]
) -> tuple[list[Case], list[Case], list[str]]:
    """The prompts one by one and in batches of the asked size, the kinds in turn; and notes on unusable ones."""
    contexts = () if question.context is None else (question.context,)
    plan = BenchPlan(temperatures=(question.temperature,), contexts=contexts, tokens=question.length + SPARE)
    single, notes = cases(engine, plan, prompts)
    many, _ = cases(engine, replace(plan, batches=(question.concurrency,)), prompts)
    return _in_turn(single), _in_turn(many), notes


def _in_turn(cases: Sequence[Case]) -> list[Case]:
    kinds = [[case for case in cases if case.kind == kind] for kind in dict.fromkeys(case.kind for case in cases)]
    return [case for case in chain.from_iterable(zip_longest(*kinds)) if case is not None]


def _without_loops(plain: Probed) -> tuple[list[int], list[str]]:
    """Indices of the probed prompts whose continuation does not loop, or all where every one does; and what to say."""
    every = range(len(plain.ids))
    kept = [index for index in every if repeated_4grams(plain.ids[index]) <= LOOP]
    if not kept:
        return list(every), [
            "Plain decoding loops on every prompt that was tried, which flatters all drafters: this advice is for "
            "looping text. Use other prompts or a temperature above 0."
        ]
    lost = len(every) - len(kept)
    if not lost:
        return kept, []
    left_out = "1 does not count" if lost == 1 else f"{lost} do not count"
    return kept, [
        f"Of the {len(every)} prompts that acceptance was measured on, {left_out}: plain decoding loops there."
    ]


def _observed(probed: Mapping[str, Probed], keep: Sequence[int]) -> dict[Candidate, Observed]:
    by_candidate = {}
    for name, result in probed.items():
        for candidate, rounds in result.by_candidate.items() if name != PLAIN else ():
            kept = tuple(rounds[index] for index in keep if index < len(rounds))
            if kept:
                by_candidate[candidate] = Observed(kept)
    return by_candidate


def _proven(
    engine: DecodingEngine,
    question: Question,
    predicted: Sequence[Predicted],
    known: Measurements,
    texts: Sequence[Case],
    until: float,
    watch: Watch,
) -> Steps[Advised | Progress, tuple[list[Measured], list[str]]]:
    """Screens the best candidates on few prompts, then runs the best of them, in turn with plain, until it is clear or
    the time is over.

    Only the second part counts, so that a candidate is not chosen by the runs that measure it. It is chosen by its
    prediction and its screening together, which both have their errors.
    """
    contenders = _contenders(predicted)
    tokens, prompts = _affordable(question, contenders, known, len(texts), until - perf_counter())
    plan = BenchPlan(
        temperatures=(question.temperature,), batches=(question.concurrency,), tokens=tokens, repeats=1, peers=False
    )
    seen = {entry: known.observed[entry].first(tokens) for entry in contenders}
    foreseen = {entry.candidate: entry for entry in predict(question, seen, known.costs, known.prefill, tokens)}
    screening = proof.run(engine, plan, contenders, texts[:prompts], warm_up=True, watch=watch)
    runs, notes = yield from mapped(screening, lambda _: _now(PROOF, question, until))
    screened = proof.measured(question, runs, foreseen)
    if not screened:
        raise DraftscopeError(f"No candidate could be measured. {' '.join(notes)}")
    best = max(screened, key=lambda entry: entry.ratio.median * entry.predicted).candidate

    def look(measured: Sequence[Measured]) -> list[Advised]:
        now = [entry for entry in measured if entry.runs > 1]
        if not now:
            return []
        return [Advised(so_far=sentences.so_far(now), ratio=asdict(now[0].ratio), verdict=decide(now).verdict)]

    measured, more = yield from _until_clear(engine, question, foreseen[best], tokens, texts, until, watch, look)
    return measured, [*notes, *more]


def _until_clear(
    engine: DecodingEngine,
    question: Question,
    foreseen: Predicted,
    tokens: int,
    texts: Sequence[Case],
    until: float,
    watch: Watch,
    look: Callable[[Sequence[Measured]], list[Advised]] = lambda _: [],
) -> Steps[Advised | Progress, tuple[list[Measured], list[str]]]:
    """Runs one candidate in turn with plain; and notes. `look` says what comes of what was measured so far."""
    candidate = foreseen.candidate
    plan = BenchPlan(
        temperatures=(question.temperature,), batches=(question.concurrency,), tokens=tokens, repeats=MAX_REPEATS,
        seconds=max(MIN_PROOF * question.seconds, until - perf_counter()), peers=False,
    )  # fmt: skip

    def result(runs: Sequence[BenchRun]) -> list[Measured]:
        return proof.measured(question, runs, {candidate: foreseen}, len(texts))

    def said(runs: Sequence[BenchRun]) -> list[Advised | Progress]:
        return [*look(result(runs)), _now(PROOF, question, until)]

    proving = proof.run(engine, plan, [candidate], texts, warm_up=False, watch=watch, clear=lambda r: clear(result(r)))
    runs, notes = yield from spread(proving, said)
    return result(runs), notes


def _at_other_temperatures(
    engine: DecodingEngine,
    question: Question,
    predicted: Sequence[Predicted],
    measured: Sequence[Measured],
    texts: Sequence[Case],
    until: float,
    watch: Watch,
) -> Steps[Advised | Progress, list[AtTemperature]]:
    """Whether a clear answer holds at the other `TEMPERATURES`, in the time that is left."""
    decision, tried = decide(measured), list[AtTemperature]()
    chosen = decision.chosen
    foreseen = next(entry for entry in predicted if entry.candidate == chosen.candidate)
    for temperature in TEMPERATURES:
        late = until - perf_counter() < MIN_PROOF * question.seconds
        if late or temperature == question.temperature or decision.verdict is Verdict.OPEN:
            continue
        other = replace(question, temperature=temperature)
        cases = [replace(case, temperature=temperature) for case in texts]
        yield Advised(so_far=f"{sentences.so_far([chosen])}; now at temperature {temperature:g}")
        yield _now(PROOF, question, until)
        again, _ = yield from _until_clear(engine, other, foreseen, chosen.tokens, cases, until, watch)
        tried += [AtTemperature(temperature, decide([run]).verdict, run.ratio) for run in again if run.has_enough_runs]
    return tried


def _contenders(predicted: Sequence[Predicted]) -> list[Candidate]:
    taken: list[Candidate] = []
    least = NEAR * predicted[0].ratio.median
    for entry in predicted:
        if entry.ratio.median < least:
            break
        same = sum(other.drafter == entry.candidate.drafter for other in taken)
        if same < EACH and len(taken) < CONTENDERS:
            taken.append(entry.candidate)
    return taken


def _affordable(
    question: Question, contenders: Sequence[Candidate], known: Measurements, texts: int, seconds: float
) -> tuple[int, int]:
    """Tokens of each answer in the proof, so that every prompt can be run once, or `ENOUGH`; and prompts in the
    screening, which runs them twice (once to warm up)."""
    batch = question.concurrency
    step, before = known.costs.plain(batch) / 1e3, batch * known.prefill.plain / 1e3  # s, of a run as slow as plain's
    screening = seconds * SCREENING / (1 - PROBING)
    turn = (seconds - screening) / min(texts, ENOUGH)
    tokens = max(min(question.length, MIN_TOKENS), min(question.length, int((turn / 2 - before) / step)))
    entry = 2 * (len(contenders) + 1) * (tokens * step + before)
    return tokens, max(1, min(4, int(screening / entry)))


def _without_drafter(engine: DecodingEngine) -> list[str]:
    missing = engine.draft is None and engine.foreign is None and not engine.heads
    return [sentences.NO_DRAFTER] if missing else []


def _reported(
    engine: DecodingEngine,
    question: Question,
    predicted: Sequence[Predicted],
    measured: Sequence[Measured],
    others: Sequence[AtTemperature],
    known: Measurements,
    notes: Sequence[str],
) -> AdviceReport:
    decision = decide(measured)
    candidate = decision.chosen.candidate
    chosen = next(entry for entry in predicted if entry.candidate == candidate)
    costs = known.costs.scaled({entry.candidate.drafter: entry.predicted / entry.ratio.median for entry in measured})
    proven = {entry.candidate.drafter for entry in measured}
    observed = {entry: rounds for entry, rounds in known.observed.items() if entry.drafter in proven}
    (again,) = predict(question, {candidate: observed[candidate]}, costs, known.prefill)
    ends = limits.limits(again, observed, costs, known.prefill, question.concurrency)
    plan = limits.schedule(candidate, observed, costs, question.concurrency)
    said = sentences.of_decision(question, decision, ends, others)
    if question.objective is Objective.COST:
        plain = 1e3 * question.concurrency / known.costs.plain(question.concurrency)
        said.append(sentences.price(question, plain, decision.chosen.ratio.median))
    return AdviceReport(
        question=question,
        verdict=decision.verdict,
        chosen=chosen,
        sentences=said,
        predicted=list(predicted),
        measured=list(measured),
        at_temperatures=list(others),
        limits=ends,
        alpha=conditional_alpha(observed[candidate]) if candidate.gamma is not None else [],
        schedule=plan,
        ready=_ready(engine, decision, plan),
        surface=_surface(engine, predicted, candidate, known, costs),
        notes=list(notes),
        machine=machine(engine),
    )


def _surface(
    engine: DecodingEngine,
    predicted: Sequence[Predicted],
    candidate: Candidate,
    known: Measurements,
    costs: CalibratedCosts | ProbedCosts,
) -> Surface | None:
    """Of the chosen drafter, or, if it makes trees, of the best one that makes chains; of calibrated costs only."""
    if isinstance(costs, ProbedCosts):
        return None
    chains = [entry.candidate for entry in predicted if entry.candidate.gamma is not None]
    chain = candidate if candidate.gamma is not None else next(iter(chains), None)
    if chain is None or chain.gamma is None:
        return None
    head, draft = _head_of(engine, chain), engine.draft
    uses_draft = drafters.find(chain.drafter).needs_draft and draft is not None
    network = draft.network if uses_draft and draft is not None else head.network if head is not None else None
    sizes = Sizes(costs.calibration.target_bytes, weight_bytes(network) if network is not None else 0)
    at = chain.gamma, known.prompt, known.prefill
    return surface(chain.drafter, known.observed, costs, sizes, at)


def _head_of(engine: DecodingEngine, candidate: Candidate) -> NamedHead | None:
    """The head that the candidate drafts with, if it is one that needs a head."""
    return engine.heads.get(drafters.find(candidate.drafter).needs_head)


def _ready(engine: DecodingEngine, decision: AdviceDecision, plan: Sequence[ScheduleRange]) -> list[servers.Ready]:
    """Settings of other engines, where it is turned on."""
    if decision.verdict is not Verdict.ON:
        return []
    candidate = decision.chosen.candidate
    head = _head_of(engine, candidate)
    draft = engine.draft.name if engine.draft is not None else servers.MODEL
    return servers.ready(candidate, plan, draft if head is None else head.name)
