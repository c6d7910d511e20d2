"""How many processor cores other processes keep busy: the commonest reason why a measured time is noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import psutil

IDLE = ("idle", "iowait", "guest", "guest_nice")  # user time has the guests' already
LACKED = 0.25  # cores: with more than this lacking, a time is not the machine's own


class OtherCores:
    """A stopwatch of the work of all other processes of this machine."""

    def __init__(self) -> None:
        self._began = perf_counter()
        self._others = _others()

    def lap(self) -> float:
        """Cores busy with other processes, on average since the last lap; 0 if none was."""
        now, others = perf_counter(), _others()
        busy = (others - self._others) / max(now - self._began, 1e-9)
        self._began, self._others = now, others
        return round(min(max(busy, 0.0), float(cores())), 2)


@dataclass(frozen=True)
class Company:
    """Cores that other processes used, in the mean, while something ran on `threads` of this machine's `cores`."""

    others: float
    threads: int
    cores: int

    @classmethod
    def of(cls, laps: Sequence[float], threads: int) -> Company:
        """From laps of about equal lengths, at least one."""
        return cls(sum(laps) / len(laps), threads, cores())

    @property
    def disturbs(self) -> bool:
        """Whether the threads lacked a core for part of the time."""
        return self.others - max(0, self.cores - self.threads) > LACKED

    def __str__(self) -> str:
        needed = "1 was" if self.threads == 1 else f"{self.threads} were"
        return f"other processes kept {self.others:.1f} of {self.cores} cores busy, and {needed} needed"


def cores() -> int:
    """Of this machine."""
    return psutil.cpu_count() or 1


def _others() -> float:
    """Seconds of work of all processes but this one, since the machine started."""
    every, process = psutil.cpu_times()._asdict(), psutil.Process().cpu_times()
    return float(sum(spent for name, spent in every.items() if name not in IDLE) - process.user - process.system)
