"""How the server sees whether the engine process still answers: a number in shared memory, which a thread of that
process raises as long as its main thread waits for commands, loads models, or gets on.

To get on means that a command was read, a round was over, or a forward began. A forward of many rows, as of a long
prompt, may take long without being stuck: it is given `ROW_S` for each. A stopped process has no thread that beats; one
whose main thread is caught in a call has one that does not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import c_uint64
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from draftscope.models.counter import Pulse

BEAT_S = 0.5
ROW_S = 0.25  # of a forward: slower than any model that somebody waits for
LOOK_S = 0.5  # between two looks of the server
QUIET_S = 5.0  # without a beat, after which the server is not ready
SILENT_S = 60.0  # without a beat, after which the process is ended and started again


class Beats:
    """The engine process's side. `number` is shared with the server."""

    def __init__(self, number: c_uint64, clock: Callable[[], float] = time.monotonic) -> None:
        self._number, self._clock = number, clock
        self._moves = 0  # of the main thread
        self._free = 0  # blocks of `unwatched` that are open
        self._models: Sequence[Pulse] = ()
        self._seen = (0, 0)
        self._until = 0.0  # a long forward may last

    def start(self) -> None:
        """Beats from now on, in a thread of its own."""
        self._number.value += 1
        threading.Thread(target=self._run, name="draftscope-beats", daemon=True).start()

    def watch(self, models: Sequence[Pulse]) -> None:
        """These models' forwards count as getting on."""
        self._models = models

    def move(self) -> None:
        """The main thread gets on."""
        self._moves += 1

    @contextmanager
    def unwatched(self) -> Iterator[None]:
        """The main thread waits for commands, or loads models, which may take as long as a download does."""
        self._free += 1
        try:
            yield
        finally:
            self._moves += 1
            self._free -= 1

    def beat(self) -> None:
        """One look at the main thread."""
        now, seen = self._clock(), (self._moves, sum(model.forwards for model in self._models))
        moved, self._seen = seen != self._seen, seen
        if moved:
            self._until = now + ROW_S * max((model.rows for model in self._models), default=0)
        if moved or self._free or now < self._until:
            self._number.value += 1

    def _run(self) -> None:
        while True:
            time.sleep(BEAT_S)
            self.beat()


class Watch:
    """The server's side: for how long the number has stood still, in seconds."""

    def __init__(self, number: c_uint64, clock: Callable[[], float] = time.monotonic) -> None:
        self._number, self._clock = number, clock
        self._seen, self._looked = 0, clock()
        self.quiet_s = 0.0

    def look(self) -> float:
        """Looks again. The server itself may have been stopped between two looks, so a long time between them does not
        count; nor does the time before the first beat, in which Python starts."""
        now, value = self._clock(), self._number.value
        self.quiet_s += min(now - self._looked, 2 * LOOK_S)
        if value != self._seen or not value:
            self.quiet_s = 0.0
        self._seen, self._looked = value, now
        return self.quiet_s
