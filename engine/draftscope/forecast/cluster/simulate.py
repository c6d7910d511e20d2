"""Requests that arrive at random moments, a router, and servers that batch them: what became of every request."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import simpy

from draftscope.base.errors import DraftscopeError
from draftscope.forecast.cluster.step_times import Speculation, StepTimes

PROMPT_TOKENS = 8192  # read in one step at most, vLLM's default on an H100 (`max_num_batched_tokens`)
EDGE = 0.2  # of the requests at both ends of a run, when the servers fill and empty


@dataclass
class SimulatedRequest:
    """One request, in seconds of the simulation; NaN until it happens."""

    arrives: float
    left: int  # tokens still to write
    first: float = math.nan  # when its first token was there
    ends: float = math.nan

    @property
    def latency(self) -> float:
        return self.ends - self.arrives


@dataclass(frozen=True)
class Traffic:
    """Poisson arrivals of equal requests, whether or not the servers keep up. All prompts begin with the same
    `shared` tokens."""

    per_second: float
    prompt: int
    answer: int
    shared: int = 0
    requests: int = 1000

    def __post_init__(self) -> None:
        if not 0 < self.per_second < math.inf or self.requests < 1:
            raise DraftscopeError(f"{self.per_second:g} requests a second: give more than 0.")
        if self.prompt < 1 or self.answer < 1:
            raise DraftscopeError(f"{self.prompt} tokens of prompt, {self.answer} of answer: give 1 or more of each.")
        if not 0 <= self.shared < self.prompt:
            raise DraftscopeError(f"{self.shared} shared tokens: give fewer than the prompt's {self.prompt}.")

    def arrivals(self, seed: int) -> list[SimulatedRequest]:
        """All requests in the order in which they come; the same for the same seed."""
        draws, now, requests = random.Random(f"arrivals {seed}"), 0.0, []
        for _ in range(self.requests):
            now += draws.expovariate(self.per_second)
            requests.append(SimulatedRequest(now, self.answer))
        return requests


class SimulatedServer:
    """Waiting requests join the batch at each step. A step reads their prompts and decodes, one after the other, and
    writes the tokens of both at its end."""

    def __init__(self, clock: simpy.Environment, times: StepTimes, traffic: Traffic, draws: random.Random) -> None:
        self._clock, self._times, self._traffic, self._draws = clock, times, traffic, draws
        self._waiting: deque[SimulatedRequest] = deque()
        self._running: list[SimulatedRequest] = []
        self._knows_prefix = False
        self._woken = clock.event()
        clock.process(self._serve())

    @property
    def load(self) -> int:
        """Requests that wait or run."""
        return len(self._waiting) + len(self._running)

    def take(self, request: SimulatedRequest) -> None:
        self._waiting.append(request)
        if not self._woken.triggered:
            self._woken.succeed()

    def _serve(self) -> Generator[simpy.Event, Any, None]:
        while True:
            if not self.load:
                self._woken = self._clock.event()
                yield self._woken
            joining, prompt = self._admit()
            speculation = self._speculation()
            reading = self._times.prefill(prompt) if joining else 0.0
            yield self._clock.timeout(reading + self._decoding_s(speculation))
            self._write(joining, speculation)

    def _admit(self) -> tuple[list[SimulatedRequest], int]:
        """The requests that join at this step, and the tokens of their prompts that no cache holds."""
        joining: list[SimulatedRequest] = []
        total, room = 0, len(self._times.plain) - len(self._running)
        while self._waiting and len(joining) < room:
            prompt = self._traffic.prompt - self._traffic.shared * self._knows_prefix
            if joining and total + prompt > PROMPT_TOKENS:
                break
            joining.append(self._waiting.popleft())
            total, self._knows_prefix = total + prompt, True
        return joining, total

    def _speculation(self) -> Speculation | None:
        """None: this step is plain decoding."""
        speculation = self._times.speculation
        return speculation if speculation and len(self._running) <= speculation.most else None

    def _decoding_s(self, speculation: Speculation | None) -> float:
        seconds = speculation.seconds if speculation else self._times.plain
        return seconds[len(self._running) - 1] if self._running else 0.0

    def _write(self, joining: Sequence[SimulatedRequest], speculation: Speculation | None) -> None:
        """A token for who joined, a step's or a round's for the others; who is done leaves."""
        for request in self._running:
            request.left -= speculation.draw(self._draws) if speculation else self._times.tokens
        for request in joining:
            request.first = self._clock.now
            request.left -= 1
        everyone = [*self._running, *joining]
        self._running = [request for request in everyone if request.left > 0]
        if len(self._running) < len(everyone):
            for request in everyone:
                if request.left <= 0:
                    request.ends = self._clock.now


Router: TypeAlias = Callable[[int, Sequence[SimulatedServer]], SimulatedServer]  # the request's number, the servers


def idlest(number: int, servers: Sequence[SimulatedServer]) -> SimulatedServer:
    """The one with the fewest requests; of equals the next in turn, so that none stays cold."""
    turn = number % len(servers)
    return min((*servers[turn:], *servers[:turn]), key=lambda server: server.load)


@dataclass(frozen=True)
class ClusterRun:
    """Every request in the order of its arrival, all of them answered."""

    requests: Sequence[SimulatedRequest]
    answer: int  # tokens of each

    @property
    def tokens_s(self) -> float:
        """Tokens a second from the first arrival to the last end."""
        ended = max(request.ends for request in self.requests)
        return len(self.requests) * self.answer / (ended - self.requests[0].arrives)

    def latency_s(self, percentile: float) -> float:
        """From arrival to the last token."""
        return float(np.percentile([request.latency for request in self.requests], percentile))

    def settled(self) -> ClusterRun:
        """Without the requests that came while the servers filled, and those after which nothing came."""
        edge = int(EDGE * len(self.requests))
        return ClusterRun(self.requests[edge : len(self.requests) - edge], self.answer)


def simulate(traffic: Traffic, times: StepTimes, servers: int, router: Router = idlest, seed: int = 0) -> ClusterRun:
    """Runs until every request is answered. Arrivals are the same with and without speculation for the same seed."""
    clock, requests = simpy.Environment(), traffic.arrivals(seed)
    pool = [SimulatedServer(clock, times, traffic, random.Random(f"rounds {seed} {n}")) for n in range(servers)]

    def arrive() -> Generator[simpy.Event, Any, None]:
        for number, request in enumerate(requests):
            yield clock.timeout(request.arrives - clock.now)
            router(number, pool).take(request)

    clock.process(arrive())
    clock.run()
    return ClusterRun(requests, traffic.answer)
