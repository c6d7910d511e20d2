"""`audit`: greedy texts first, then samples until the answer is clear, and a report."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from draftscope.decode.engine import DecodingEngine
from draftscope.measure.ties import Rounding
from draftscope.servers.audit.greedy import GREEDY_TOKENS, GreedyResult, decoded_by, greedy, written_by
from draftscope.servers.audit.missed import missed
from draftscope.servers.audit.pairs import END, Compared, NoTarget, compared, least_accuracy, pairs_sentence
from draftscope.servers.audit.plan import LEAST_TOLERANCE, Allowance, Plan
from draftscope.servers.audit.reported import REPORTED_TOKENS, ReportedResult, reported
from draftscope.servers.audit.rounds import Audited, sampled
from draftscope.servers.audit.target import LabTarget
from draftscope.servers.audit.verdict import (
    failures_sentence,
    first_position,
    greedy_sentence,
    joined,
    reported_sentence,
    sampled_sentence,
)
from draftscope.servers.audit.writer import Writer
from draftscope.servers.programs.registry import find

Watch = Callable[[Audited | Compared], None]


@dataclass(frozen=True)
class AuditReport:
    """What an audit found; every field is plain data. Evidence is in nats: the log of a test's wealth."""

    verdict: str
    differences: list[str]  # of: greedy, log-probabilities, sampled
    incomplete: bool  # the server failed too often for an answer
    undecided: bool  # nothing was found, and even a large difference would have been missed
    server: str
    target: str
    created: str  # ISO 8601, UTC
    settings: dict[str, Any]
    tolerance: float  # nats a token
    greedy: dict[str, Any] | None
    reported: dict[str, Any] | None  # log-probabilities; None without weights
    sampled: dict[str, Any] | None
    example: dict[str, str] | None  # the prompt, and of all texts written after it the one the target finds strangest
    failures: list[str]

    @property
    def different(self) -> bool:
        return bool(self.differences)

    def as_json(self) -> dict[str, Any]:
        return {"different": self.different, **asdict(self)}


def audit(
    writer: Writer,
    kind: str,
    engine: DecodingEngine,
    prompts: Sequence[str],
    tokens: Sequence[Sequence[int]],
    plan: Plan,
    plain: Writer | None = None,
    watch: Watch = lambda _: None,
    server: str = "",
) -> AuditReport:
    """Audits a server of this `kind` against the target of `engine`. `tokens` are those of `prompts`.

    Greedy texts are compared with the target's own, or with those of `plain`, another server. Raises `ServerError`
    where a server fails, and `DraftscopeError` where it runs another model.
    """
    began, target = time.monotonic(), LabTarget(engine)
    expect = decoded_by(engine) if plain is None else written_by(plain, target)
    expected = [expect(prompt) for prompt in tokens]
    texts = [(list(prompt), list(text)) for prompt, text in zip(tokens, expected, strict=True) if text]
    allowance = Allowance(_tolerance(plan, target, texts))
    rounding = Rounding(engine, texts, least=allowance.logit)
    compared = greedy(writer, tokens, expected, target, rounding)
    logprobs = reported(writer, tokens, target, allowance, plan.seed)
    state, left = None, _left(plan, began)
    if not plan.sampling.greedy:
        for state in sampled(writer, target, tokens, left, allowance, find(kind).sampling_order):
            watch(state)
    return report(
        server, engine.target.name, plan, allowance, compared, logprobs, state,
        lambda n, text: {"prompt": prompts[n], "text": engine.tokenizer.decode(list(text))},
    )  # fmt: skip


def audit_without_weights(
    writer: Writer,
    plain: Writer,
    prompts: Sequence[str],
    tokens: Sequence[Sequence[int]],
    plan: Plan,
    watch: Watch = lambda _: None,
    server: str = "",
    target: str = "",
    decode: Callable[[Sequence[int]], str] = str,
) -> AuditReport:
    """Compares a server with a plain one of the same model. Ties of greedy texts cannot be told apart."""
    began, nothing = time.monotonic(), NoTarget()
    expected = [written_by(plain, nothing)(prompt) for prompt in tokens]
    greedy_texts = greedy(writer, tokens, expected, nothing, None)
    state, sentences = None, []
    if not plan.sampling.greedy:
        for state in compared(writer, plain, tokens, _left(plan, began)):
            watch(state)
    if state is not None:
        sentences.append(pairs_sentence(state))
    return AuditReport(
        verdict=joined(*sentences, greedy_sentence(greedy_texts), *([failures_sentence(state)] if state else [])),
        differences=_named(bool(greedy_texts.differs), False, state),
        incomplete=bool(state and state.ended == "failures"),
        undecided=state is not None and least_accuracy(state) is None,
        server=server,
        target=target,
        created=_now(),
        settings=asdict(plan),
        tolerance=Allowance().nats if plan.tolerance is None else plan.tolerance,
        greedy=asdict(greedy_texts),
        reported=None,
        sampled=None if state is None else _of_pairs(state),
        example=None
        if state is None or state.example is None
        else {"prompt": prompts[state.example[0]], "text": decode([t for t in state.example[1] if t != END])},
        failures=[] if state is None else state.failures,
    )


def _of_pairs(state: Compared) -> dict[str, Any]:
    return {
        "different": state.different,
        "ended": state.ended,
        "seconds": round(state.seconds, 1),
        "pairs": state.pairs,
        "pairs_told_apart": state.right,
        "pairs_guessed": state.guessed,
        "evidence": state.total,
        "least_share_told_apart": least_accuracy(state),
    }


def always_asked(prompts: int) -> int:
    """Tokens at most that a server is asked for before it samples."""
    return prompts * (GREEDY_TOKENS + REPORTED_TOKENS)


def _named(greedy_differs: bool, logprobs_differ: bool, state: Audited | Compared | None) -> list[str]:
    tests = {"greedy": greedy_differs, "log-probabilities": logprobs_differ, "sampled": bool(state and state.different)}
    return [name for name, differs in tests.items() if differs]


def _left(plan: Plan, began: float) -> Plan:
    """The plan with the seconds that are left of its own."""
    return replace(plan, seconds=max(plan.seconds - (time.monotonic() - began), 1e-3))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _tolerance(plan: Plan, target: LabTarget, texts: Sequence[tuple[list[int], list[int]]]) -> float:
    if plan.tolerance is not None:
        return plan.tolerance
    return LEAST_TOLERANCE if plan.sampling.greedy else target.measured_tolerance(texts, plan.sampling)


def report(
    server: str,
    target: str,
    plan: Plan,
    allowance: Allowance,
    compared: GreedyResult | None,
    logprobs: ReportedResult | None,
    state: Audited | None,
    example: Callable[[int, Sequence[int]], dict[str, str]],
) -> AuditReport:
    sentences, least = [], None if state is None else missed(state.evidence, plan.false_alarm)
    if state is not None and least is not None:
        sentences.append(sampled_sentence(state, least))
    if compared is not None:
        sentences.append(greedy_sentence(compared))
    if logprobs is not None and logprobs.differs:
        sentences.append(reported_sentence(logprobs))
    if state is not None:
        sentences.append(failures_sentence(state))
    return AuditReport(
        verdict=joined(*sentences),
        differences=_named(bool(compared and compared.differs), bool(logprobs and logprobs.differs), state),
        incomplete=bool(state and state.ended == "failures"),
        undecided=least is not None and (least.variation is None or least.nats is None),
        server=server,
        target=target,
        created=_now(),
        settings=asdict(plan),
        tolerance=allowance.nats,
        greedy=None if compared is None else asdict(compared),
        reported=None if logprobs is None else asdict(logprobs),
        sampled=None if state is None else _numbers(state),
        example=None if state is None or state.example is None else example(*state.example),
        failures=[] if state is None else state.failures,
    )


def _numbers(state: Audited) -> dict[str, Any]:
    evidence = state.evidence
    (score, z), (statistic, freedom, p_value) = evidence.scored(), evidence.chi_square
    place = first_position(evidence)
    return {
        "different": state.different,
        "ended": state.ended,
        "seconds": round(state.seconds, 1),
        "samples": evidence.texts,
        "tokens": evidence.counted,
        "excluded_tokens": evidence.outside,
        "tokens_at_an_edge": evidence.at_edge,
        "evidence": evidence.total,
        "evidence_by_test": evidence.parts,
        "from_token": place.position if place else None,
        "score": {"nats": score, "z": z},
        "positions": [asdict(position) for position in evidence.positions],
        "ranks": {"histogram": evidence.histogram, "chi_square": statistic, "freedom": freedom, "p_value": p_value},
        "identical_pairs": evidence.repetition.identical,
        "identical_pairs_expected": evidence.repetition.expected,
        "missed": asdict(missed(evidence, state.plan.false_alarm)),
    }
