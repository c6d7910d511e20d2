"""`audit`: greedy texts first, then samples until the answer is clear, and a report."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from draftscope.base.errors import DraftscopeError
from draftscope.base.steps import Steps
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.prompt import read_prompt
from draftscope.measure.ties import Rounding
from draftscope.models.loading.chat import Chat
from draftscope.servers.adapter import Server
from draftscope.servers.audit.greedy import GREEDY_TOKENS, GreedyResult, decoded_by, greedy, written_by
from draftscope.servers.audit.missed import missed
from draftscope.servers.audit.plan import AUDIT_PROMPTS, MIN_TOLERANCE, Allowance, Plan
from draftscope.servers.audit.reported import REPORTED_TOKENS, ReportedResult, reported
from draftscope.servers.audit.target import LabTarget
from draftscope.servers.audit.text_writer import Writer
from draftscope.servers.audit.two_servers import END, Compared, NoTarget, compared, min_accuracy, pairs_sentence
from draftscope.servers.audit.verdict import (
    failures_sentence,
    first_position,
    greedy_sentence,
    joined,
    reported_sentence,
    sampled_sentence,
)
from draftscope.servers.audit.waves import Audited, sampled
from draftscope.servers.programs.program_list import find


@dataclass(frozen=True)
class AuditReport:
    """What an audit found; every field is plain data. Evidence is in nats: the log of a test's wealth."""

    verdict: str
    differences: list[str]  # of: greedy, log-probabilities, sampled
    incomplete: bool  # the server failed too often for an answer
    undecided: bool  # nothing was found, and even a large difference may have been missed
    server: str
    target: str
    created: str  # ISO 8601, UTC
    settings: dict[str, Any]
    tolerance: float  # nats a token
    greedy: dict[str, Any]
    reported: dict[str, Any] | None  # log-probabilities; None without weights
    sampled: dict[str, Any] | None
    example: dict[str, str] | None  # the prompt, and of all texts written after it the one the target finds strangest
    failures: list[str]

    @property
    def different(self) -> bool:
        return bool(self.differences)

    def as_json(self) -> dict[str, Any]:
        return {"different": self.different, **asdict(self)}


def audit_servers(
    server: Server,
    plain: Server | None,
    engine: DecodingEngine | None,
    plan: Plan,
    texts: Sequence[str] = AUDIT_PROMPTS,
    chat: bool = False,
) -> Steps[Audited | Compared, AuditReport]:
    """Audits a server against the target of `engine`, or without one against `plain`, a server of the same model; says
    after each wave of samples how it stands."""
    name = server.identity.sentence
    if engine is not None:
        most, form = max(plan.tokens, GREEDY_TOKENS), Chat(raw=not chat)
        read = [read_prompt(engine, text, most, form)[1] for text in texts]
        return (yield from audit(server, server.identity.kind, engine, texts, read, plan, plain, name))
    if plain is None:
        raise DraftscopeError("An audit needs the target's weights, or a plain server of the same model.")
    ids, url = [server.tokenize(text) for text in texts], plain.identity.url
    return (yield from audit_without_weights(server, plain, texts, ids, plan, name, url, server.detokenize))


def audit(
    writer: Writer,
    kind: str,
    engine: DecodingEngine,
    prompts: Sequence[str],
    tokens: Sequence[Sequence[int]],
    plan: Plan,
    plain: Writer | None = None,
    server: str = "",
) -> Steps[Audited | Compared, AuditReport]:
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
            yield state
    return _report(
        server, engine.target.name, plan, allowance, compared, logprobs, state, prompts, engine.tokenizer.decode
    )


def audit_without_weights(
    writer: Writer,
    plain: Writer,
    prompts: Sequence[str],
    tokens: Sequence[Sequence[int]],
    plan: Plan,
    server: str = "",
    target: str = "",
    decode: Callable[[Sequence[int]], str] = str,
) -> Steps[Audited | Compared, AuditReport]:
    """Compares a server with a plain one of the same model. Ties of greedy texts cannot be told apart."""
    began, nothing = time.monotonic(), NoTarget()
    expected = [written_by(plain, nothing)(prompt) for prompt in tokens]
    greedy_texts = greedy(writer, tokens, expected, nothing, None)
    state = None
    if not plan.sampling.greedy:
        for state in compared(writer, plain, tokens, _left(plan, began)):
            yield state
    return _report(server, target, plan, plan.allowance, greedy_texts, None, state, prompts, decode)


def always_asked(prompts: int) -> int:
    """Tokens at most that a server is asked for before it samples."""
    return prompts * (GREEDY_TOKENS + REPORTED_TOKENS)


def _left(plan: Plan, began: float) -> Plan:
    """The plan with the seconds that are left of its own."""
    return replace(plan, seconds=max(plan.seconds - (time.monotonic() - began), 1e-3))


def _tolerance(plan: Plan, target: LabTarget, texts: Sequence[tuple[list[int], list[int]]]) -> float:
    if plan.tolerance is not None:
        return plan.tolerance
    return MIN_TOLERANCE if plan.sampling.greedy else target.measured_tolerance(texts, plan.sampling)


def _report(
    server: str,
    target: str,
    plan: Plan,
    allowance: Allowance,
    compared: GreedyResult,
    logprobs: ReportedResult | None,
    state: Audited | Compared | None,
    prompts: Sequence[str],
    decode: Callable[[Sequence[int]], str],
) -> AuditReport:
    tests = {
        "greedy": bool(compared.differs),
        "log-probabilities": logprobs is not None and bool(logprobs.differs),
        "sampled": state is not None and state.different,
    }
    sentence, undecided = "", bool(compared.untold)
    numbers: dict[str, Any] | None = None
    example: dict[str, str] | None = None
    if state is not None:
        sentence, undecided, more = _of_samples(state) if isinstance(state, Audited) else _of_pairs(state)
        numbers = {"different": state.different, "ended": state.ended, "seconds": round(state.seconds, 1), **more}
        if state.example is not None:
            number, text = state.example
            example = {"prompt": prompts[number], "text": decode([token for token in text if token != END])}
    return AuditReport(
        verdict=joined(
            sentence,
            greedy_sentence(compared),
            reported_sentence(logprobs) if logprobs is not None and logprobs.differs else "",
            "" if state is None else failures_sentence(state),
        ),
        differences=[name for name, differs in tests.items() if differs],
        incomplete=state is not None and state.ended == "failures",
        undecided=undecided,
        server=server,
        target=target,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        settings=asdict(plan),
        tolerance=allowance.nats,
        greedy=asdict(compared),
        reported=None if logprobs is None else asdict(logprobs),
        sampled=numbers,
        example=example,
        failures=[] if state is None else state.failures,
    )


def _of_pairs(state: Compared) -> tuple[str, bool, dict[str, Any]]:
    """Its sentence, whether a large difference would have been missed, and its numbers."""
    least = min_accuracy(state)
    return (
        pairs_sentence(state),
        least is None,
        {
            "pairs": state.pairs,
            "pairs_told_apart": state.right,
            "pairs_guessed": state.guessed,
            "evidence": state.total,
            "min_detectable_share": least,
        },
    )


def _of_samples(state: Audited) -> tuple[str, bool, dict[str, Any]]:
    """The same for samples of which the target's probabilities are known."""
    evidence = state.evidence
    least = missed(evidence, state.plan.false_alarm)
    (score, z), (statistic, freedom, p_value) = evidence.scored(), evidence.chi_square
    place = first_position(evidence)
    return (
        sampled_sentence(state, least),
        least.variation is None or least.nats is None,
        {
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
            "missed": asdict(least),
        },
    )
