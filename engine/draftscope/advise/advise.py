"""The whole advice: probe, predict, screen, prove, decide; within the question's seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain, zip_longest
from statistics import fmean
from time import perf_counter
from typing import TypeVar

from torch.nn import Module

from draftscope import drafters
from draftscope.advise import limits, noise, proof, sentences, servers
from draftscope.advise.candidates import Candidate
from draftscope.advise.costs import CalibratedCosts
from draftscope.advise.fitted import fitted, prefill
from draftscope.advise.model import Predicted, Prefill, predict, steady_ratio
from draftscope.advise.observed import Observed, conditional_alpha
from draftscope.advise.probe import Probed, Watch, able, nobody, probe
from draftscope.advise.question import Objective, Question
from draftscope.advise.report import AdviceReport, SpeedMap
from draftscope.advise.surface import Surface, surface
from draftscope.advise.verdict import Decision, Measured, Verdict, decide
from draftscope.advise.what_if import Sizes
from draftscope.base.costs import PLAIN
from draftscope.base.errors import DraftscopeError
from draftscope.base.prompts import Prompt
from draftscope.base.steps import Steps, last, mapped
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.pair import NamedHead
from draftscope.measure.bench.cases import cases
from draftscope.measure.bench.plan import BenchPlan
from draftscope.measure.bench.report import machine
from draftscope.measure.bench.statistics import LOOP, repeated_4grams
from draftscope.measure.bench.systems import Case
from draftscope.servers.programs.program import ScheduleRange

PROBING, SCREENING = 0.35, 0.25  # shares of the time; the proof has the rest
LEAST_PROOF = 0.1  # of the time, even if the machine was slower than foreseen
CONTENDERS, EACH = 6, 2  # candidates that are screened, and of one drafter at most
PROVEN = 2
PROBE_TOKENS = 128  # of an answer, at most: whether it loops, and what is accepted, changes from its start to its end
SPARE = 32  # tokens beyond an answer: the probe does not cut its last draft
LEAST_TOKENS = 16  # of an answer in the proof
MOST_REPEATS = 5
SHOWN_READERS = (1, 2, 4, 8, 16, 32, 64)

Say = Callable[[str], None]
Found = TypeVar("Found")


class Stage(StrEnum):
    """What is measured."""

    COSTS = "costs of rounds on this machine"
    ACCEPTANCE = "acceptance on these prompts"
    SCREENING = "the best candidates on a few prompts"
    PROOF = "the two best against plain decoding"


@dataclass(frozen=True)
class Progress:
    """How far it is. `done` counts prompts of the acceptance, runs of the screening and the proof."""

    stage: Stage
    done: int = 0
    left_s: float | None = None  # of the question's seconds; None while costs are measured, which is no part of them


@dataclass(frozen=True)
class Known:
    """What probing found: acceptance, costs and prefill."""

    observed: Mapping[Candidate, Observed]
    costs: CalibratedCosts
    prefill: Prefill
    prompt: int  # tokens of a prompt, in the mean


def advise(
    engine: DecodingEngine,
    question: Question,
    prompts: Mapping[str, Sequence[Prompt]],
    names: Sequence[str] = (),
    notes: Sequence[str] = (),
    say: Say = lambda _: None,
) -> AdviceReport:
    """Answers `question` for these models and prompts, comparing the drafters `names` or all that can run.

    The calibration is read, or measured first, outside the question's seconds. Raises `DraftscopeError` for prompts
    that cannot be used, a context that is too long, and drafters that cannot run here.
    """
    stage: Stage | None = None

    def see(progress: Progress) -> None:
        nonlocal stage
        if progress.stage != stage:
            stage = progress.stage
            say(str(stage))

    return last(advising(engine, question, prompts, names, notes), see)


def advising(
    engine: DecodingEngine,
    question: Question,
    prompts: Mapping[str, Sequence[Prompt]],
    names: Sequence[str] = (),
    notes: Sequence[str] = (),
    watch: Watch = nobody,
) -> Steps[Progress, AdviceReport]:
    """The same step by step. `watch` is called every round and may raise `Cancelled`."""
    infos = able(engine, names)
    if not infos:
        raise DraftscopeError("No drafter can run on these models, so there is nothing to decide; load a draft model.")
    if question.concurrency > 1 and not engine.batches:
        raise DraftscopeError(
            f"concurrency = {question.concurrency}: these models decode one sequence at a time; ask for one reader."
        )
    single, many, unusable = cases_of(engine, question, prompts)
    yield Progress(Stage.COSTS)
    calibration = yield from mapped(engine.calibrated(), lambda _: Progress(Stage.COSTS))
    until = perf_counter() + question.seconds
    prompt = fmean(len(case.prompts[0]) for case in single)
    context = round(prompt + question.length / 2)

    def known(probed: Mapping[str, Probed], keep: Sequence[int]) -> Known:
        return Known(_observed(probed, keep), fitted(calibration, probed, context), prefill(probed), round(prompt))

    def rank(probed: Mapping[str, Probed]) -> Mapping[str, float]:
        at_hand = known(probed, range(len(single)))
        ratios = [
            (steady_ratio(each, own, at_hand.costs, question.concurrency), each.drafter)
            for each, own in at_hand.observed.items()
        ]
        return {drafter: ratio for ratio, drafter in sorted(ratios)}

    clock = noise.Clock()
    tokens = min(question.length, PROBE_TOKENS)
    probing = probe(engine, single, infos, tokens, PROBING * question.seconds, rank, watch)
    probed, failed = yield from _counted(probing, Stage.ACCEPTANCE, until)
    busy = noise.sentences(clock.others(), probed[PLAIN].round_ms, calibration.round_ms(PLAIN, 0, 0, 1, context))
    keep, looping = _without_loops(probed[PLAIN])
    found = known(probed, keep)
    predicted = predict(question, found.observed, found.costs, found.prefill)
    if not predicted:
        raise DraftscopeError(f"No drafter could be measured. {' '.join(failed)}")
    texts = _to_prove(many, keep, len(probed[PLAIN].ids))
    measured, more = yield from _proven(engine, question, predicted, found, texts, until, watch)
    told = [*notes, *unusable, *failed, *busy, *looping, *more, *_alone(engine)]
    return _reported(engine, question, predicted, measured, found, told)


def _counted(steps: Steps[int, Found], stage: Stage, until: float) -> Steps[Progress, Found]:
    """Says after each count how far it is."""
    return mapped(steps, lambda done: Progress(stage, done, max(0.0, until - perf_counter())))


def cases_of(
    engine: DecodingEngine, question: Question, prompts: Mapping[str, Sequence[Prompt]]
) -> tuple[list[Case], list[Case], list[str]]:
    """The prompts one by one and in batches of the asked size, the kinds in turn; and notes on unusable ones."""
    contexts = () if question.context is None else (question.context,)
    plan = BenchPlan(temperatures=(question.temperature,), contexts=contexts, tokens=question.length + SPARE)
    single, notes = cases(engine, plan, prompts)
    many, _ = cases(engine, replace(plan, batches=(question.concurrency,)), prompts)
    return _in_turn(single), _in_turn(many), notes


def _in_turn(own: Sequence[Case]) -> list[Case]:
    kinds = [[case for case in own if case.kind == kind] for kind in dict.fromkeys(case.kind for case in own)]
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


def _to_prove(many: Sequence[Case], keep: Sequence[int], probed: int) -> list[Case]:
    """The prompts that do not loop, then those that were not probed."""
    return [*(many[index] for index in keep), *many[probed:]]


def _observed(probed: Mapping[str, Probed], keep: Sequence[int]) -> dict[Candidate, Observed]:
    found = {}
    for name, own in probed.items():
        for candidate, rounds in own.by_candidate.items() if name != PLAIN else ():
            kept = tuple(rounds[index] for index in keep if index < len(rounds))
            if kept:
                found[candidate] = Observed(kept)
    return found


def _proven(
    engine: DecodingEngine,
    question: Question,
    predicted: Sequence[Predicted],
    known: Known,
    texts: Sequence[Case],
    until: float,
    watch: Watch,
) -> Steps[Progress, tuple[list[Measured], list[str]]]:
    """Screens the best candidates on few prompts, then runs the best two of them, with plain, until the time is over.

    Only the second part counts, so that a candidate is not chosen by the runs that measure it.
    """
    contenders = _contenders(predicted)
    tokens, prompts = _affordable(question, contenders, known, until - perf_counter())
    plan = BenchPlan(
        temperatures=(question.temperature,), batches=(question.concurrency,), tokens=tokens, repeats=1, peers=False
    )
    seen = {each: known.observed[each].first(tokens) for each in contenders}
    at_hand = predict(question, seen, known.costs, known.prefill, tokens)
    ratios = {each.candidate: each.ratio.median for each in at_hand}
    screening = proof.run(engine, plan, contenders, texts[:prompts], warm_up=True, watch=watch)
    runs, notes = yield from _counted(screening, Stage.SCREENING, until)
    screened = sorted(proof.measured(question, runs, ratios), key=lambda each: -each.ratio.median)
    if not screened:
        raise DraftscopeError(f"No candidate could be measured. {' '.join(notes)}")
    best = [each.candidate for each in screened[:PROVEN]]
    plan = replace(plan, repeats=MOST_REPEATS, seconds=max(LEAST_PROOF * question.seconds, until - perf_counter()))
    proving = proof.run(engine, plan, best, texts, warm_up=False, watch=watch)
    runs, more = yield from _counted(proving, Stage.PROOF, until)
    return proof.measured(question, runs, {each: ratios[each] for each in best}), [*notes, *more]


def _contenders(predicted: Sequence[Predicted]) -> list[Candidate]:
    taken: list[Candidate] = []
    for each in predicted:
        same = sum(other.drafter == each.candidate.drafter for other in taken)
        if same < EACH and len(taken) < CONTENDERS:
            taken.append(each.candidate)
    return taken


def _affordable(question: Question, contenders: Sequence[Candidate], known: Known, seconds: float) -> tuple[int, int]:
    """Tokens of each answer in the proof, and prompts in the screening, which runs them twice (once to warm up)."""
    batch = question.concurrency
    step = known.costs.plain(batch) / 1e3 * (len(contenders) + 1)  # s a token, as if none were faster than plain
    share = seconds * SCREENING / (1 - PROBING)
    tokens = max(min(question.length, LEAST_TOKENS), min(question.length, int(share / (2 * step))))
    return tokens, max(1, min(4, int(share / (2 * step * tokens))))


def _alone(engine: DecodingEngine) -> list[str]:
    alone = engine.draft is None and engine.foreign is None and not engine.heads
    return [sentences.NO_DRAFTER] if alone else []


def _reported(
    engine: DecodingEngine,
    question: Question,
    predicted: Sequence[Predicted],
    measured: Sequence[Measured],
    known: Known,
    notes: Sequence[str],
) -> AdviceReport:
    decision = decide(measured)
    candidate = decision.chosen.candidate
    chosen = next(each for each in predicted if each.candidate == candidate)
    runner_up = next((each for each in measured if each.candidate != candidate), None)
    last = sorted(
        measured, key=lambda each: each.candidate == candidate
    )  # of one drafter's sizes the chosen one counts
    costs = known.costs.scaled({each.candidate.drafter: each.predicted / each.ratio.median for each in last})
    proven = {each.candidate.drafter for each in measured}
    observed = {each: own for each, own in known.observed.items() if each.drafter in proven}
    (again,) = predict(question, {candidate: observed[candidate]}, costs, known.prefill)
    ends = limits.limits(again, observed, costs, known.prefill, question.concurrency)
    plan = limits.schedule(candidate.drafter, observed, costs)
    said = sentences.of_decision(question, decision, runner_up, ends)
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
        limits=ends,
        alpha=conditional_alpha(observed[candidate]) if candidate.gamma is not None else [],
        schedule=plan,
        speed_map=speed_map(candidate, observed, costs),
        ready=_ready(engine, decision, plan),
        surface=_surface(engine, predicted, candidate, known, costs),
        notes=list(notes),
        machine=machine(engine),
    )


def _surface(
    engine: DecodingEngine, predicted: Sequence[Predicted], candidate: Candidate, known: Known, costs: CalibratedCosts
) -> Surface | None:
    """Of the chosen drafter, or, if it makes trees, of the best one that makes chains."""
    chains = [each.candidate for each in predicted if each.candidate.gamma is not None]
    chain = candidate if candidate.gamma is not None else next(iter(chains), None)
    if chain is None or chain.gamma is None:
        return None
    readers = [size for size in SHOWN_READERS if size <= costs.most_batch]
    head, draft = _head_of(engine, chain), engine.draft
    uses_draft = drafters.find(chain.drafter).needs_draft and draft is not None
    network = draft.network if uses_draft and draft is not None else head.network if head is not None else None
    sizes = Sizes(costs.calibration.target_bytes, _bytes(network) if network is not None else 0)
    at = chain.gamma, known.prompt, known.prefill
    return surface(chain.drafter, known.observed, costs, readers, sizes, at)


def _head_of(engine: DecodingEngine, candidate: Candidate) -> NamedHead | None:
    """The head that the candidate drafts with, if it is one that needs a head."""
    return engine.heads.get(drafters.find(candidate.drafter).needs_head)


def _bytes(network: Module) -> int:
    return sum(each.numel() * each.element_size() for each in network.parameters())


def speed_map(candidate: Candidate, observed: Mapping[Candidate, Observed], costs: CalibratedCosts) -> SpeedMap | None:
    """Of the chosen drafter, if it has a gamma."""
    readers = [size for size in SHOWN_READERS if size <= costs.most_batch]
    ratios = limits.speed_map(candidate.drafter, observed, costs, readers)
    return SpeedMap(candidate.drafter, readers, ratios) if ratios else None


def _ready(engine: DecodingEngine, decision: Decision, plan: Sequence[ScheduleRange]) -> list[servers.Ready]:
    """Settings of other engines, where it is turned on."""
    if decision.verdict is not Verdict.ON:
        return []
    candidate = decision.chosen.candidate
    head = _head_of(engine, candidate)
    draft = engine.draft.name if engine.draft is not None else servers.MODEL
    return servers.ready(candidate, plan, draft if head is None else head.name)
