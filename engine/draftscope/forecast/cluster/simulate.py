"""A traffic through a router into servers, and what became of every request."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import simpy

from draftscope.forecast.cluster.server import SimulatedServer
from draftscope.forecast.cluster.step_times import StepTimes
from draftscope.forecast.cluster.traffic import SimulatedRequest, Traffic

EDGE = 0.2  # of the requests at both ends of a run, when the servers fill and empty

Router: TypeAlias = Callable[[int, Sequence[SimulatedServer]], SimulatedServer]  # the request's number, the servers


def least_busy(number: int, servers: Sequence[SimulatedServer]) -> SimulatedServer:
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


def simulate(
    traffic: Traffic, times: StepTimes, servers: int, router: Router = least_busy, seed: int = 0
) -> ClusterRun:
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
