"""How busy the machine is with other work, since costs measured then are not its own."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import numpy as np
import psutil

BUSY = 0.25  # share of all cores that other processes may use before it is said
SPREAD = 0.35  # interquartile range over the median of plain's rounds before it is said
CHANGED = 1.35  # plain's round now against the calibration's, either way


class Clock:
    """Other processes' share of the processor's time since this was made."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._began, self._own, self._all = perf_counter(), self._own_seconds(), _busy_seconds()

    def others(self) -> float:
        """0 to 1 of all cores."""
        seconds = (perf_counter() - self._began) * (psutil.cpu_count() or 1)
        own, every = self._own_seconds() - self._own, _busy_seconds() - self._all
        return float(np.clip((every - own) / seconds, 0, 1)) if seconds > 0 else 0.0

    def _own_seconds(self) -> float:
        spent = self._process.cpu_times()
        return float(spent.user + spent.system)


def spread(round_ms: Sequence[float]) -> float:
    """The interquartile range of round times over their median."""
    low, middle, high = np.quantile(round_ms, [0.25, 0.5, 0.75])
    return float((high - low) / middle)


def sentences(others: float, plain_ms: Sequence[float], calibrated_ms: float) -> list[str]:
    """What makes the costs uncertain, if anything: other processes' share, uneven rounds, an old calibration."""
    found = []
    if others > BUSY or spread(plain_ms) > SPREAD:
        found.append(
            f"This machine is too noisy to calibrate well: other processes used {others:.0%} of its processor time, "
            f"and the middle half of plain's rounds differ by {spread(plain_ms):.0%}. Only ratios within the same "
            "repeat are reliable; stop other work and ask again."
        )
    now = float(np.median(plain_ms))
    if not 1 / CHANGED < now / calibrated_ms < CHANGED:
        found.append(
            f"A round of plain decoding takes {now:.2f} ms, and took {calibrated_ms:.2f} ms when this pair was "
            "calibrated. Costs are scaled to what is measured now; 'draftscope calibrate --again' measures them anew."
        )
    return found


def _busy_seconds() -> float:
    spent = psutil.cpu_times()
    return float(sum(spent) - spent.idle - getattr(spent, "iowait", 0.0) - getattr(spent, "guest", 0.0))
