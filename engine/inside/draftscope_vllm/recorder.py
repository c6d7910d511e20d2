"""Keeps the rounds of requests in bounded memory, and ends itself, never the server, at the first error."""

from __future__ import annotations

import json
import logging
import queue
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

log = logging.getLogger("vllm.draftscope")

WAITING = 32  # steps that the thread has not read yet: they hold their tensors
PER_REQUEST, IN_ALL = 1024, 16_384  # rounds
ASKING = "draftscope-"  # a request whose id contains this is recorded

Rounds = Callable[[Any], "list[tuple[str, dict[str, Any]]]"]


class RoundRecorder:
    """Takes steps on the engine's thread, turns them into rounds on another one, and keeps those as JSON."""

    def __init__(self, rounds: Rounds, every: bool) -> None:
        self.every = every  # request, or those that ask for it
        self.why = ""  # it is off; empty while it records
        self.lost = 0  # steps that were not recorded because the thread was behind
        self._rounds = rounds
        self._steps: queue.Queue[Any] = queue.Queue(WAITING)
        self._rings: OrderedDict[str, deque[tuple[int, str]]] = OrderedDict()
        self._written = self._held = 0  # rounds ever, and in the rings
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
        except queue.Full:
            self.lost += 1

    def drain(self) -> None:
        """Waits until every step that was taken is read."""
        self._steps.join()

    def answer(self, request: str = "", after: int = -1) -> str:
        """JSON: the state, and the rounds of the requests whose id contains `request`, those after a round's number."""
        with self._lock:
            names = list(self._rings)
            rings = [ring for name, ring in self._rings.items() if request and request in name]
            lines = sorted(line for ring in rings for line in ring if line[0] > after)
        state = {"on": self.on, "why": self.why, "lost": self.lost, "requests": [] if request else names}
        return f'{json.dumps(state)[:-1]}, "rounds": [{", ".join(line for _, line in lines)}]}}'

    def _read_steps(self) -> None:
        while True:
            step = self._steps.get()
            try:
                if self.on:
                    for request, content in self._rounds(step):
                        self._keep(request, content)
            except Exception as error:
                self.disable(f"a step could not be read ({error!r})")
            finally:
                self._steps.task_done()

    def _keep(self, request: str, content: dict[str, Any]) -> None:
        line = json.dumps({"request": request, "number": self._written, **content}, allow_nan=False)
        with self._lock:
            ring = self._rings.setdefault(request, deque(maxlen=PER_REQUEST))
            self._held += len(ring) < PER_REQUEST
            ring.append((self._written, line))
            self._written += 1
            while self._held > IN_ALL:
                self._held -= len(self._rings.popitem(last=False)[1])
