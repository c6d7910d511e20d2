"""Asks a server for texts, wave by wave, and adds up what they say, until the answer is clear or a limit is reached."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from draftscope.servers.adapter import Request, ServerError
from draftscope.servers.audit.evidence import Evidence
from draftscope.servers.audit.facts import facts_of
from draftscope.servers.audit.plan import Allowance, Plan
from draftscope.servers.audit.target import Target, refuse_unknown
from draftscope.servers.audit.writer import Writer, Written, write
from draftscope.servers.programs.program import Step

Ended: TypeAlias = Literal["difference", "samples", "time", "failures"]
MAX_FAILURES = 0.1  # share of all requests; with more, an audit would judge the rest by what a server let through


@dataclass
class AuditState(ABC):
    """How far an audit above temperature 0 is."""

    plan: Plan
    ended: Ended | None = None  # None: it goes on
    failures: list[str] = field(default_factory=list)  # requests that the server did not answer
    example: tuple[int, tuple[int, ...]] | None = None  # a prompt's number, and the strangest text written after it
    seconds: float = 0.0
    fewest: ClassVar[int]  # requested before the share of failures is looked at

    @property
    @abstractmethod
    def texts(self) -> int: ...

    @property
    @abstractmethod
    def total(self) -> float:
        """log of a test supermartingale, nats."""

    @property
    def different(self) -> bool:
        return self.total >= math.log(1 / self.plan.false_alarm)

    def close(self, requested: int, seconds: float) -> None:
        """Closes a wave: after so many requests, does it end? Raises `ServerError` where none of them was answered."""
        self.seconds, failed = seconds, len(self.failures)
        if self.different:
            self.ended = "difference"
        elif failed == requested:
            raise ServerError(self.failures[-1])
        elif requested >= self.fewest and failed > MAX_FAILURES * requested:
            self.ended = "failures"
        elif requested >= self.plan.samples:
            self.ended = "samples"
        elif seconds >= self.plan.seconds:
            self.ended = "time"


@dataclass
class Audited(AuditState):
    """An audit with the target's weights."""

    evidence: Evidence = field(kw_only=True)
    lowest: float = math.inf  # the score of the example
    fewest: ClassVar[int] = 20

    @property
    def texts(self) -> int:
        return self.evidence.texts

    @property
    def total(self) -> float:
        return self.evidence.total


def request_of(plan: Plan, prompt: Sequence[int], number: int) -> Request:
    """The request for text `number`: each has a seed of its own. Ending is left to the model: some servers change the
    distribution to keep a text from ending."""
    sampling = plan.sampling
    return Request(
        max_tokens=plan.tokens, ids=tuple(prompt), seed=plan.seed + number, temperature=sampling.temperature,
        top_k=sampling.top_k, top_p=sampling.top_p, min_p=sampling.min_p,
    )  # fmt: skip


def sampled(
    writer: Writer,
    target: Target,
    prompts: Sequence[Sequence[int]],
    plan: Plan,
    allowance: Allowance,
    order: tuple[Step, ...],
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Audited]:
    """Yields the state after each wave; the last one has `ended`. Raises `ServerError` where no request is answered.

    A wave asks for `concurrency` texts of one prompt at once, so that reused randomness shows as repetition.
    """
    audited = Audited(plan, evidence=Evidence(allowance, plan.tokens + 1))
    dice, began = np.random.default_rng(plan.seed), clock()
    with ThreadPoolExecutor(plan.concurrency) as pool:
        for wave, numbers in enumerate(plan.waves):
            number = wave % len(prompts)
            texts = _wave(pool, writer, plan, prompts[number], numbers, audited.failures)
            _add(audited, target, number, prompts[number], texts, allowance, order, dice)
            audited.close(numbers.stop, clock() - began)
            yield audited
            if audited.ended is not None:
                return


def _wave(
    pool: ThreadPoolExecutor,
    writer: Writer,
    plan: Plan,
    prompt: Sequence[int],
    numbers: range,
    failures: list[str],
) -> list[Written]:
    """The texts in the order in which they were asked for: that in which they arrive may depend on what they say."""
    requests = [pool.submit(write, writer, request_of(plan, prompt, number)) for number in numbers]
    texts = []
    for request in requests:
        try:
            texts.append(request.result())
        except ServerError as error:
            failures.append(str(error))
    return texts


def _add(
    audited: Audited,
    target: Target,
    number: int,
    prompt: Sequence[int],
    texts: Sequence[Written],
    allowance: Allowance,
    order: tuple[Step, ...],
    dice: np.random.Generator,
) -> None:
    tokens = [ended for text in texts if (ended := text.with_end(target.ends))]
    for ids in tokens:
        refuse_unknown(target, ids)
    if not tokens:
        return
    for ids, logits in zip(tokens, target.logits(prompt, tokens), strict=True):
        facts = facts_of(number, ids, logits, audited.plan.sampling, order, allowance, dice, target.ends)
        audited.evidence.take(facts)
        score = float(facts.score.sum()) - 1e6 * int(facts.outside.sum())
        if score < audited.lowest:
            audited.lowest, audited.example = score, (number, ids)
