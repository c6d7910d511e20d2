"""The steps in which models are loaded, as whoever watches is told them: which step, what of it is done, and for how
long it has gone on. Imports no torch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from time import monotonic

from draftscope.base.progress import Progress, Watcher

PERIOD_S = 1.0  # between two words about a step that says nothing by itself
LONG_S = 2.0  # after which a step says for how long it has gone on


class Stage(Enum):
    """The steps, in order; the values say what is done."""

    START = "starting torch"
    FETCH = "fetching the model"
    COMPILE = "compiling for this processor, once a machine"
    READ = "reading the weights"
    CHECK = "checking the forward"
    MEASURE = "measuring threads, warming up"


STAGES = tuple(Stage)


@dataclass(frozen=True)
class _At:
    """A step that began at a time, what it has said since, and what share of it is done."""

    stage: Stage
    began: float
    detail: str = ""
    share: float = 0.0

    def words(self, now: float) -> str:
        spent = f", {now - self.began:.0f} s" if now - self.began >= LONG_S else ""
        step = f"step {STAGES.index(self.stage) + 1} of {len(STAGES)}{spent}"
        return ": ".join(part for part in (step, self.stage.value, self.detail) if part)


class _Teller:
    """Tells a watcher the latest, at once and every `PERIOD_S` seconds."""

    def __init__(self, watch: Watcher, clock: Callable[[], float]) -> None:
        self._watch, self._clock = watch, clock
        self._at: _At | None = None
        self._lock = threading.Lock()

    def tell(self, stage: Stage, detail: str, share: float) -> None:
        with self._lock:
            before, now = self._at, self._clock()
            began = before.began if before is not None and before.stage is stage else now
            self._at = _At(stage, began, detail, share)
        self.repeat()

    def repeat(self) -> None:
        with self._lock:
            if (at := self._at) is not None:
                self._watch(Progress(at.words(self._clock()), at.share))


_TELLER: ContextVar[_Teller | None] = ContextVar("teller", default=None)


@contextmanager
def watched_by(watch: Watcher, clock: Callable[[], float] = monotonic) -> Iterator[None]:
    """What is loaded inside tells `watch` its steps; it is called from another thread too, never by two at once."""
    teller, over = _Teller(watch, clock), threading.Event()

    def repeat() -> None:
        while not over.wait(PERIOD_S):
            teller.repeat()

    repeating = threading.Thread(target=repeat, name="draftscope-stages", daemon=True)
    repeating.start()
    token = _TELLER.set(teller)
    try:
        yield
    finally:
        _TELLER.reset(token)
        over.set()
        repeating.join()


def tell(stage: Stage, detail: str = "", share: float = 0.0) -> None:
    """This step has begun or got on, as `detail` says."""
    teller()(stage, detail, share)


def teller() -> Callable[[Stage, str, float], None]:
    """`tell` to whoever watches here, for another thread."""
    current = _TELLER.get()
    return current.tell if current is not None else lambda *_: None


def megabytes(done: int, whole: int) -> str:
    """How much of a file has come."""
    return f"{done / 1e6:.0f} of {whole / 1e6:.0f} MB"
