"""The clock of one session: the stages of its rounds, without the time between them."""

from __future__ import annotations

from itertools import pairwise
from time import perf_counter
from typing import Any

import torch


class Stopwatch:
    """Times the work on one device. It is stopped between rounds.

    A CUDA device works on while the host launches more, and waiting for it at every stage would slow it down. So stages
    that end before the round's result arrives are timed by the device, between events of its stream, the others by the
    host. What a round leaves running, its bookkeeping, is waited for by the next round; where something else runs
    between rounds (`settles`), the round waits for it itself.
    """

    def __init__(self, device: torch.device) -> None:
        self.now = 0.0  # ms of work so far
        self.settles = False
        self.stages: dict[str, float] = {}  # ms, of the current round
        self._device, self._cuda = device, device.type == "cuda"
        self._mark = 0.0
        self._events: list[Any] = []  # one for the begin and one for each launched stage, used again in every round
        self._launched: list[str] = []

    def resume(self) -> None:
        self._mark = perf_counter()

    def lap(self) -> float:
        """Milliseconds since the last lap or `resume`, including everything queued on the device."""
        self._settle()
        return self._since()

    def begin(self) -> None:
        """Resumes for a round, whose stages then end in this order: some `launched`, one `arrived`, more `passed`."""
        self.stages, self._launched = {}, []
        self.resume()
        if self._cuda:
            self._record(0)

    def launched(self, stage: str) -> None:
        """The host has launched all of a stage."""
        if self._cuda:
            self._launched.append(stage)
            self._record(len(self._launched))
        else:
            self.stages[stage] = self._since()

    def arrived(self, stage: str) -> None:
        """A stage has ended with a read of its result, so the device has done this stage and those before."""
        whole = self._since()
        for name, (one, other) in zip(self._launched, pairwise(self._events), strict=False):
            self.stages[name] = one.elapsed_time(other)
        self.stages[stage] = max(0.0, whole - sum(self.stages.values())) if self._cuda else whole

    def passed(self, stage: str) -> None:
        """The host has done its part of a stage."""
        self.stages[stage] = self._since()

    def end(self, stage: str) -> None:
        """The round's last stage has ended."""
        if self.settles:
            self._settle()
        self.passed(stage)

    def _since(self) -> float:
        mark = perf_counter()
        spent = (mark - self._mark) * 1e3
        self._mark = mark
        self.now += spent
        return spent

    def _settle(self) -> None:
        if self._cuda:
            torch.cuda.current_stream(self._device).synchronize()

    def _record(self, place: int) -> None:
        if place == len(self._events):
            self._events.append(torch.cuda.Event(enable_timing=True))  # type: ignore[no-untyped-call]
        self._events[place].record(torch.cuda.current_stream(self._device))
