"""Requests that arrive at random moments, whether or not the servers keep up."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from draftscope.base.errors import DraftscopeError


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
    """Poisson arrivals of equal requests. All prompts begin with the same `shared` tokens."""

    per_second: float
    prompt: int
    answer: int
    shared: int = 0
    requests: int = 1000

    def __post_init__(self) -> None:
        if not 0 < self.per_second < math.inf or self.requests < 1:
            raise DraftscopeError(f"{self.per_second:g} requests a second: give more than 0")
        if self.prompt < 1 or self.answer < 1:
            raise DraftscopeError(f"{self.prompt} tokens of prompt and {self.answer} of answer: give 1 or more of each")
        if not 0 <= self.shared < self.prompt:
            raise DraftscopeError(f"{self.shared} shared tokens: give fewer than the prompt's {self.prompt}")

    def arrivals(self, seed: int) -> list[SimulatedRequest]:
        """All requests in the order in which they come; the same for the same seed."""
        draws, now, requests = random.Random(f"arrivals {seed}"), 0.0, []
        for _ in range(self.requests):
            now += draws.expovariate(self.per_second)
            requests.append(SimulatedRequest(now, self.answer))
        return requests
