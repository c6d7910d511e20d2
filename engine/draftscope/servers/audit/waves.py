"""Asks a server for texts, wave by wave, and adds up what they say, until the answer is clear or a limit is reached."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias, TypeVar

import numpy as np

from draftscope.servers.adapter import Request, ServerError
from draftscope.servers.audit.evidence import Evidence
from draftscope.servers.audit.facts import facts_of
from draftscope.servers.audit.plan import Allowance, Plan
from draftscope.servers.audit.target import Target, refuse_unknown
from draftscope.servers.audit.text_writer import Writer, Written, write
from draftscope.servers.programs.program import Step

State = TypeVar("State", bound="AuditState")
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

    @abstractmethod
    def take(self, number: int, texts: Sequence[Sequence[Written]]) -> None:
        """The texts of a wave after prompt `number`, one of each writer beside each other."""

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

    target: Target = field(kw_only=True)
    prompts: Sequence[Sequence[int]] = field(kw_only=True)
    order: tuple[Step, ...] = field(kw_only=True)
    evidence: Evidence = field(kw_only=True)
    lowest: float = math.inf  # the score of the example
    fewest: ClassVar[int] = 20

    def __post_init__(self) -> None:
        self._dice = np.random.default_rng(self.plan.seed)

    @property
    def texts(self) -> int:
        return self.evidence.texts

    @property
    def total(self) -> float:
        return self.evidence.total

    def take(self, number: int, texts: Sequence[Sequence[Written]]) -> None:
        target, sampling, allowance = self.target, self.plan.sampling, self.evidence.allowance
        tokens = [ended for (text,) in texts if (ended := text.with_end(target.ends))]
        for ids in tokens:
            refuse_unknown(target, ids)
        for ids, logits in zip(tokens, target.logits(self.prompts[number], tokens), strict=True):
            facts = facts_of(number, ids, logits, sampling, self.order, allowance, self._dice, target.ends)
            self.evidence.take(facts)
            score = float(facts.score.sum()) - 1e6 * int(facts.outside.sum())
            if score < self.lowest:
                self.lowest, self.example = score, (number, ids)


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
    """Tests the texts of a server against its target, as `in_waves`."""
    evidence = Evidence(allowance, plan.tokens + 1)
    audited = Audited(plan, target=target, prompts=prompts, order=order, evidence=evidence)
    yield from in_waves(audited, [writer], prompts, clock)


def in_waves(
    state: State,
    writers: Sequence[Writer],
    prompts: Sequence[Sequence[int]],
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[State]:
    """Yields the state after each wave; the last one has `ended`. Raises `ServerError` where no request is answered.

    A wave asks each writer for `concurrency` texts of one prompt at once, so that reused randomness shows as
    repetition. Several writers get other seeds: with equal ones equal servers might write equal texts, which says
    nothing. Texts are taken in the order in which they were asked for: that in which they arrive may depend on what
    they say.
    """
    plan, began = state.plan, clock()
    with ThreadPoolExecutor(len(writers) * plan.concurrency) as pool:
        for wave, numbers in enumerate(plan.waves):
            number = wave % len(prompts)
            prompt = prompts[number]
            requests = [
                [pool.submit(write, writer, request_of(plan, prompt, side * plan.samples + n)) for n in numbers]
                for side, writer in enumerate(writers)
            ]
            texts = []
            for together in zip(*requests, strict=True):
                try:
                    texts.append([request.result() for request in together])
                except ServerError as error:
                    state.failures.append(str(error))
            state.take(number, texts)
            state.close(numbers.stop, clock() - began)
            yield state
            if state.ended is not None:
                return
