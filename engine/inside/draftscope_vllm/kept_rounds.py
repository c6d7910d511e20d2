"""Keeps the rounds of requests in bounded memory, and ends itself, never the server, at the first error."""

from __future__ import annotations

import json
import logging
import math
import os
import queue
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from pydantic_core import to_json

log = logging.getLogger("vllm.draftscope")

WAITING = 32  # steps that the thread has not read yet: they hold their tensors
PER_REQUEST, IN_ALL = 1024, 16_384  # rounds
ASKING = "draftscope-"  # a request whose id contains this is recorded

Rounds = Callable[[Any], "list[tuple[str, dict[str, Any]]]"]


class RoundRecorder:
    """Takes steps on the engine's thread, turns them into rounds on another one, and keeps those as JSON."""

    def __init__(self, rounds: Rounds, every: bool, waiting: int = WAITING) -> None:
        self.every = every  # request, or those that ask for it
        self.why = ""  # it is off; empty while it records
        self.lost = 0  # steps that were not recorded because the thread was behind
        self._rounds = rounds
        self._steps: queue.Queue[Any] = queue.Queue(waiting)
        self._rings: OrderedDict[str, deque[tuple[int, str]]] = OrderedDict()
        self._written = self._held = 0  # rounds ever, and in the rings
        self._ended: OrderedDict[str, int] = OrderedDict()  # requests, and the steps that were taken until then
        self._taken = self._read = 0  # steps
        self._lock = threading.Lock()
        threading.Thread(target=self._read_steps, name="draftscope", daemon=True).start()

    @property
    def on(self) -> bool:
        return not self.why

    def wants(self, request: str) -> bool:
        return self.every or ASKING in request

    def disable(self, why: str) -> None:
        """For good, and said once."""
        if self.on:
            self.why = why
            log.warning("draftscope records nothing from here on: %s. Answers are not affected.", why)

    def take(self, step: Any) -> None:
        """Never waits: a step that finds the queue full is lost, and counted."""
        try:
            self._steps.put_nowait(step)
            self._taken += 1
        except queue.Full:
            self.lost += 1

    def end(self, requests: Iterable[str]) -> None:
        """These write no more. Called where `answer` is, on the engine's thread."""
        self._ended |= dict.fromkeys(filter(self.wants, requests), self._taken)
        while len(self._ended) > IN_ALL:
            self._ended.popitem(last=False)

    def drain(self) -> None:
        """Waits until every step that was taken is read."""
        self._steps.join()

    def answer(self, request: str = "", after: int = -1) -> str:
        """JSON: the state, and the rounds of the requests whose id contains `request`, those after a round's number;
        `ended`: they were the last ones; None where there is no such request."""
        with self._lock:
            names = list(self._rings)
            rings = [ring for name, ring in self._rings.items() if request and request in name]
            lines = sorted(line for ring in rings for line in ring if line[0] > after)
            matching = [name for name in {*names, *self._ended} if request in name]
            ended = all(self._ended.get(name, math.inf) <= self._read for name in matching) if matching else None
        state = {
            "on": self.on, "why": self.why, "lost": self.lost, "requests": [] if request else names, "ended": ended
        }  # fmt: skip
        return f'{json.dumps(state)[:-1]}, "rounds": [{", ".join(line for _, line in lines)}]}}'

    def _read_steps(self) -> None:
        _leave_the_engines_core()
        while True:
            step = self._steps.get()
            try:
                if self.on:
                    for request, content in self._rounds(step):
                        self._keep(request, content)
            except Exception as error:
                self.disable(f"a step could not be read ({error!r})")
            finally:
                self._read += 1
                self._steps.task_done()

    def _keep(self, request: str, content: dict[str, Any]) -> None:
        line = to_json({"request": request, "number": self._written, **content}, inf_nan_mode="null").decode()
        with self._lock:
            ring = self._rings.setdefault(request, deque(maxlen=PER_REQUEST))
            self._held += len(ring) < PER_REQUEST
            ring.append((self._written, line))
            self._written += 1
            while self._held > IN_ALL:
                self._held -= len(self._rings.popitem(last=False)[1])


def _leave_the_engines_core() -> None:
    """vLLM for CPUs binds a worker's main thread to cores of its own, and threads that it starts inherit them; the
    process that started the worker may use all."""
    with suppress(AttributeError, OSError):  # not every system has it, or allows it
        os.sched_setaffinity(0, os.sched_getaffinity(0) | os.sched_getaffinity(os.getppid()))
