"""How many processor cores other processes keep busy: the commonest reason why a measured time is noise."""

from __future__ import annotations

from time import perf_counter

import psutil

IDLE = ("idle", "iowait", "guest", "guest_nice")  # user time has the guests' already


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
        return round(min(max(busy, 0.0), float(psutil.cpu_count() or 1)), 2)


def _others() -> float:
    """Seconds of work of all processes but this one, since the machine started."""
    every, own = psutil.cpu_times()._asdict(), psutil.Process().cpu_times()
    return float(sum(spent for name, spent in every.items() if name not in IDLE) - own.user - own.system)
