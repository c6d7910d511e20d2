"""One server: waiting requests join the batch at each step, the prompts that they bring are read in that step too."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Generator, Sequence
from typing import Any

import simpy

from draftscope.forecast.cluster.speculation import Speculation
from draftscope.forecast.cluster.step_times import StepTimes
from draftscope.forecast.cluster.traffic import SimulatedRequest, Traffic

PROMPT_TOKENS = 8192  # read in one step at most, vLLM's default on an H100 (`max_num_batched_tokens`)


class SimulatedServer:
    """A step takes its prefill and its decoding, one after the other, and writes the tokens of both at its end."""

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
