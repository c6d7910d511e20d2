"""Load: many requests at once, for a fixed time, at each concurrency and to each server on its own.

Closed arrivals keep `concurrency` requests in flight. Poisson arrivals come at a rate whether or not the server keeps
up; at most `concurrency` are in flight, and the rest wait here, which counts as their latency. A request that is still
running when the time is up is stopped: its tokens count, its latency does not.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from draftscope.base.errors import DraftscopeError
from draftscope.base.steps import Steps, stoppable
from draftscope.servers.adapter import Counted, Request
from draftscope.servers.background import PATIENCE_S
from draftscope.servers.server_race import INTERRUPTED, Answer, Race, RaceLane, RacePrompt, answered

MOST = 64  # requests at once
MAX_FAILURES = 3  # in a row, of one worker: it stops


@dataclass(frozen=True)
class LoadPlan:
    """What to run. Seconds throughout."""

    prompts: Sequence[RacePrompt]
    request: Request
    concurrency: tuple[int, ...] = (1, 2, 4, 8)
    seconds: float = 10.0
    rate: float | None = None  # Poisson arrivals per second; None: closed
    ttft: float | None = None  # a request is good only if its first token came within this
    tpot: float | None = None
    jitter: float = 0.0

    def __post_init__(self) -> None:
        wrong = [count for count in self.concurrency if not 1 <= count <= MOST]
        if wrong or not self.concurrency:
            raise DraftscopeError(f"concurrency {list(self.concurrency)}: give numbers from 1 to {MOST}.")
        if not 0 < self.seconds <= 3600:
            raise DraftscopeError(f"{self.seconds} seconds: give more than 0 and at most 3600.")
        if self.rate is not None and not 0 < self.rate <= 10_000:
            raise DraftscopeError(f"{self.rate} arrivals a second: give more than 0 and at most 10000.")


@dataclass(frozen=True)
class LoadPoint:
    """One server at one concurrency. None: nothing finished."""

    lane: str
    concurrency: int
    finished: int
    failed: int
    tokens: int  # that arrived while it was measured, also of requests that were cut short
    tokens_per_second: float
    good_per_second: float  # finished requests within the limits
    latency_p50: float | None
    latency_p99: float | None
    ttft_p50: float | None
    ttft_p99: float | None
    tpot_p50: float | None
    counted: Counted | None  # by the server
    failure: str | None  # the first

    @property
    def drafted_per_token(self) -> float | None:
        """Drafted tokens for each written one; None where the server does not count, or nothing was written."""
        if self.counted is None or self.counted.drafted is None or not self.tokens:
            return None
        return self.counted.drafted / self.tokens


@dataclass(frozen=True)
class _Done:
    answer: Answer
    waited: float  # seconds between arrival and sending


def load(lanes: Sequence[RaceLane], plan: LoadPlan) -> Steps[LoadPoint | None, None]:
    """A point for each concurrency and lane, and None meanwhile; who goes first alternates. A warm-up request to each
    is not counted, and neither is a point that is stopped."""
    once = Race(plan.prompts, plan.request, jitter=plan.jitter)
    for lane in lanes:
        for _ in answered(lane, once, plan.prompts[0], 0, -1):
            yield None
    for step, concurrency in enumerate(plan.concurrency):
        turn = step % len(lanes)
        for lane in (*lanes[turn:], *lanes[:turn]):
            yield (yield from _point(lane, concurrency, plan))


def _point(lane: RaceLane, concurrency: int, plan: LoadPlan) -> Steps[None, LoadPoint]:
    before, began = lane.counters(), time.monotonic()
    end, stop = began + plan.seconds, threading.Event()
    race = Race(plan.prompts, plan.request, jitter=plan.jitter)
    arrivals = _arrivals(plan, began, end)
    lock = threading.Lock()

    def over() -> bool:
        return stop.is_set() or time.monotonic() > end

    def work() -> list[_Done]:
        done: list[_Done] = []
        failures = 0
        while failures < MAX_FAILURES:
            with lock:
                number, due = next(arrivals, (-1, end))
            if number < 0 or due >= end:
                return done
            time.sleep(max(0.0, due - time.monotonic()))
            if over():
                return done
            index = number % len(plan.prompts)
            waited = max(0.0, time.monotonic() - due) if plan.rate else 0.0
            seeded = replace(race, request=replace(plan.request, seed=(plan.request.seed + number) % 2**31))
            for heard in stoppable(answered(lane, seeded, plan.prompts[index], index, 0), over):
                if isinstance(heard, Answer):
                    done.append(_Done(heard, waited))
                    failures = failures + 1 if heard.failure not in (None, INTERRUPTED) else 0
        return done

    with ThreadPoolExecutor(concurrency) as pool:
        workers = [pool.submit(work) for _ in range(concurrency)]
        try:
            while wait(workers, PATIENCE_S).not_done:
                yield None
        finally:
            stop.set()
        done = [call for worker in workers for call in worker.result()]
    seconds = time.monotonic() - began
    counted: Counted | None = None
    with suppress(DraftscopeError):  # it was started anew
        counted = lane.counted_since(before)
    return _folded(lane, concurrency, plan, done, seconds, counted)


def _arrivals(plan: LoadPlan, began: float, end: float) -> Iterator[tuple[int, float]]:
    """(number, when it is due) of each request."""
    draws, due = random.Random(plan.request.seed), began
    for number in count():
        if plan.rate is not None:
            due += draws.expovariate(plan.rate)
        if due >= end:
            return
        yield number, due


def _folded(
    lane: RaceLane, concurrency: int, plan: LoadPlan, done: Sequence[_Done], seconds: float, counted: Counted | None
) -> LoadPoint:
    finished = [call for call in done if call.answer.failure is None]
    failures = [call.answer.failure for call in done if call.answer.failure not in (None, INTERRUPTED)]
    firsts = [call.waited + call.answer.latency.ttft for call in finished if call.answer.latency.ttft is not None]
    tokens = sum(call.answer.latency.tokens for call in done)
    return LoadPoint(
        lane=lane.name,
        concurrency=concurrency,
        finished=len(finished),
        failed=len(failures),
        tokens=tokens,
        tokens_per_second=tokens / seconds,
        good_per_second=sum(_good(call, plan) for call in finished) / seconds,
        latency_p50=_percentile([call.waited + call.answer.latency.total for call in finished], 50),
        latency_p99=_percentile([call.waited + call.answer.latency.total for call in finished], 99),
        ttft_p50=_percentile(firsts, 50),
        ttft_p99=_percentile(firsts, 99),
        tpot_p50=_percentile([t for call in finished if (t := call.answer.latency.tpot) is not None], 50),
        counted=counted,
        failure=failures[0] if failures else None,
    )


def _good(done: _Done, plan: LoadPlan) -> bool:
    times = done.answer.latency
    first = plan.ttft is None or (times.ttft is not None and done.waited + times.ttft <= plan.ttft)
    return first and (plan.tpot is None or times.tpot is None or times.tpot <= plan.tpot)


def _percentile(values: Sequence[float], which: float) -> float | None:
    return float(np.percentile(values, which)) if values else None
