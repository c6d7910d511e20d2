"""The measured cost of a round on this machine, from which draft lengths are chosen and speedups predicted.

A round that drafts gamma tokens takes gamma x (one draft step) + verify(gamma + 1 rows) + overhead; a round of plain
decoding takes verify(1) + its own overhead. Divided by plain's round these terms are c, v and o, and the expected
speedup at tau tokens a round is S = tau / (gamma c + v + o) (2211.17192, but with v measured instead of 1). More
rows cannot take less time: where noise says otherwise, the measured times are levelled out by isotonic regression.
`decode/calibration.py` measures; this module stores, interpolates and says which figures no machine can have. It
imports no torch.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from draftscope.base.assets import cache_folder

PLAIN = "plain"
NOT_KEPT = "These costs are not kept: stop other work on this machine and run 'draftscope calibrate --again'."
FALLS = 1.25  # times: so much longer with fewer rows, and beyond the noise, is not the machine's
ERRORS = 3  # standard errors
SMALL = 0.1  # of the target's bytes: a step of such a draft takes no longer than a round of plain decoding
MIN_OVERHEAD = 5.0  # ms: a round beside its forwards may take so long however small the model is


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MeasuredFor(_Record):
    """What the measurements depend on: if any of this changes, they are measured again."""

    target: str
    target_hash: str
    draft: str
    draft_hash: str
    emulates: str
    forward: str  # of the target: 'native', 'packed', 'graphs', or empty
    device: str
    dtype: str
    threads: int
    torch: str
    transformers: str
    draftscope: str
    one_text: bool = False  # batches of one only

    @property
    def key(self) -> str:
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]


class Verify(_Record):
    """One target forward: milliseconds for `width` rows of `batch` sequences after `context` tokens."""

    width: int
    batch: int
    context: int
    ms: float  # the median
    noise: float = 0.0  # ms: the standard error of that median


class Drafting(_Record):
    """The cost of a drafter's rounds in ms, fitted to measured rounds.

    `step` is one draft step. `overhead` is everything except draft steps and the target's forward: random numbers,
    verification, commit, text; each drafted token adds `accept_step` to it. Plain decoding has only an overhead.
    """

    batch: int
    step: float
    overhead: float
    accept_step: float


class RowRounding(_Record):
    """Rows of one shape of draft, compared with the same tokens decoded alone: how many differ in some bit."""

    form: str
    branches: bool  # a tree; chains do not branch
    width: int  # rows of the forward
    rows: int  # compared
    differing: int
    largest: float  # difference of two logits of the same token


class VerifyCurve(_Record):
    """v by the number of rows: a target forward divided by one of a single row, never below 1 and never falling.

    `noise` is the standard error of each ratio. Nothing is known beyond the last width.
    """

    context: int
    widths: list[int]
    v: list[float]
    noise: list[float]


class Machine(_Record):
    """GB/s of a large copy (bytes read plus bytes written) and GFLOP/s of a large matmul, in the pair's dtype."""

    copy_gb_s: float
    matmul_gflop_s: float


class Calibration(_Record):
    """One pair on one machine. Widths and batches were measured at `context` tokens."""

    measured_for: MeasuredFor
    created: str
    context: int
    verify: list[Verify]
    drafting: dict[str, list[Drafting]]  # by drafter, including plain decoding, at one or more batch sizes
    machine: Machine
    target_bytes: int
    row_rounding: list[RowRounding] = []  # whether a row has the bits of one decoded by itself
    doubts: list[str] = []  # sentences: why these times are not the machine's; one with doubts is not saved

    @property
    def plain_ms(self) -> float:
        """One round of plain decoding, batch 1."""
        return self.round_ms(PLAIN, 0, 0)

    @property
    def bandwidth_share(self) -> float:
        """Bytes of the target's weights read per second of its forward, divided by the measured copy bandwidth."""
        return self.target_bytes / 1e6 / self.verify_ms(1) / self.machine.copy_gb_s

    @property
    def curve(self) -> VerifyCurve:
        """v by rows for one sequence."""
        return verify_curve([p for p in self.verify if p.batch == 1 and p.context == self.context])

    def verify_ms(self, width: int, batch: int = 1, context: int | None = None) -> float:
        """A target forward in ms, interpolated linearly in rows, in log2 of the batch, and in tokens of context."""
        batches = sorted({point.batch for point in self.verify})
        by_batch = [self._width_ms(width, size) + self._context_ms(context or self.context, size) for size in batches]
        return max(0.0, float(np.interp(np.log2(batch), np.log2(batches), by_batch)))

    def _width_ms(self, width: int, batch: int) -> float:
        widths, times = _levelled(
            tuple((p.width, p.ms) for p in self.verify if p.batch == batch and p.context == self.context)
        )
        if width <= widths[-1]:
            return float(np.interp(width, widths, times))
        return float(times[-1] * width / widths[-1])  # wider than measured: as much a row as the widest

    def _context_ms(self, context: int, batch: int) -> float:
        """The extra ms of a forward of one row at `context` tokens instead of `self.context`.

        The longest contexts were measured with one sequence only; each sequence of a batch then adds as much.
        """
        contexts, times = _levelled(tuple((p.context, p.ms) for p in self.verify if p.batch == batch and p.width == 1))
        extra = float(np.interp(context, contexts, times) - np.interp(self.context, contexts, times))
        if batch == 1 or context <= contexts[-1]:
            return extra
        return extra + batch * (self._context_ms(context, 1) - self._context_ms(contexts[-1], 1))

    def rounds_of(self, drafter: str, batch: int = 1) -> Drafting:
        """The drafter's costs at a batch size, interpolated between the two nearest measured ones."""
        nearest = sorted(self.drafting[drafter], key=lambda drafting: abs(math.log(drafting.batch / batch)))[:2]
        if len(nearest) == 1:
            return nearest[0]
        near, far = nearest
        share = (batch - near.batch) / (far.batch - near.batch)
        names = ("step", "overhead", "accept_step")
        along = {name: getattr(near, name) + share * (getattr(far, name) - getattr(near, name)) for name in names}
        return Drafting(batch=batch, **{name: max(0.0, value) for name, value in along.items()})

    def c(self, drafter: str) -> float:
        """Cost of one draft step, divided by that of a round of plain decoding."""
        return self.rounds_of(drafter).step / self.plain_ms

    def v(self, width: int) -> float:
        """Cost of a verify forward of `width` rows, divided by that of a round of plain decoding."""
        return self.verify_ms(width) / self.plain_ms

    def round_cost(self, drafter: str, gamma: int, batch: int = 1, context: int | None = None) -> float:
        """Cost of a round that drafts `gamma` tokens, divided by a round of plain decoding; 1 if gamma is 0."""
        return self.tree_cost(drafter, gamma, gamma, batch, context)

    def tree_cost(self, drafter: str, nodes: int, levels: int, batch: int = 1, context: int | None = None) -> float:
        """The same for a tree of `nodes` nodes, drafted in `levels` steps."""
        if nodes == 0:
            return 1.0
        return self.round_ms(drafter, nodes, levels, batch, context) / self.round_ms(PLAIN, 0, 0, batch, context)

    def round_ms(self, drafter: str, nodes: int, levels: int, batch: int = 1, context: int | None = None) -> float:
        """Milliseconds of a round of `batch` sequences with `nodes` drafted tokens each, drafted in `levels` steps."""
        cost = self.rounds_of(drafter, batch)
        drafting = cost.overhead + levels * cost.step + nodes * cost.accept_step
        return drafting + self.verify_ms(nodes + 1, batch, context)

    def speedup(self, drafter: str, gamma: int, tau: float) -> float:
        """S = tau / (gamma c + v + o): predicted tokens per second divided by plain decoding's."""
        return tau / self.round_cost(drafter, gamma)


def verify_curve(points: Iterable[Verify]) -> VerifyCurve:
    """The curve of measured points of one batch size and context; one of them is of a single row."""
    ordered = sorted(points, key=lambda point: point.width)
    widths, times = _levelled(tuple((point.width, point.ms) for point in ordered))
    one = ordered[0]
    share = [math.hypot(point.noise / point.ms, one.noise / one.ms) for point in ordered]
    return VerifyCurve(
        context=one.context,
        widths=widths,
        v=[ms / times[0] for ms in times],
        noise=[0.0, *(ms / times[0] * error for ms, error in zip(times[1:], share[1:], strict=True))],
    )


@lru_cache(maxsize=256)
def _levelled(points: tuple[tuple[int, float], ...]) -> tuple[list[int], list[float]]:
    """Sizes in order and their times, which do not fall: the nearest such times by least squares."""
    from scipy.optimize import isotonic_regression  # not at the top: it takes longer to import than this module

    sizes, times = zip(*sorted(points), strict=True)
    return list(sizes), [float(ms) for ms in isotonic_regression(times).x]


def alpha_of(tau: float, gamma: int) -> float:
    """The acceptance rate a with 1 + a + .. + a^gamma = tau, the same at every position; above 1 if tau > gamma + 1."""

    from scipy.optimize import brentq  # not at the top: it takes longer to import than this module

    def over(rate: float) -> float:
        return sum(rate**power for power in range(gamma + 1)) - tau

    return 0.0 if tau <= 1 else float(brentq(over, 0.0, max(2.0, tau)))


def calibration_folder() -> Path:
    """The folder of saved calibrations."""
    return cache_folder() / "calibration"


def load_saved(measured_for: MeasuredFor) -> Calibration | None:
    """The saved calibration for exactly this setup, or None. A damaged file is ignored."""
    path = calibration_folder() / f"{measured_for.key}.json"
    try:
        saved = Calibration.model_validate_json(path.read_text())
    except (OSError, ValueError):  # no JSON of a calibration, or no text at all
        return None
    return saved if saved.measured_for == measured_for else None


def save(calibration: Calibration) -> Path | None:
    """Saves a calibration for later runs; None if the folder cannot be written (this run can still use it), or if there
    are doubts about it: a saved one from before stays."""
    if calibration.doubts:
        return None
    path = calibration_folder() / f"{calibration.measured_for.key}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(calibration.model_dump(mode="json"), indent=1))
    except OSError:
        return None
    return path


def impossible(calibration: Calibration, draft_bytes: Mapping[str, int]) -> list[str]:
    """A sentence for each impossible figure, with its values. `draft_bytes`: the weights that a drafter's step reads;
    a drafter without a model is left out."""
    points = [point for point in calibration.verify if point.context == calibration.context]
    said = [*falling(points), *_slow(calibration)]
    for name, size in draft_bytes.items():
        if name in calibration.drafting and size < SMALL * calibration.target_bytes and calibration.c(name) > 1:
            said.append(
                f"A draft step of {name} took {calibration.rounds_of(name).step:.2f} ms and a round of plain decoding "
                f"{calibration.plain_ms:.2f} ms, though the draft has {size / calibration.target_bytes:.0%} of the "
                "target's bytes."
            )
    return said


def falling(points: Iterable[Verify]) -> list[str]:
    """Forwards that took much less time than smaller ones: of fewer rows, or of fewer sequences."""
    every = sorted(points, key=lambda point: (point.batch, point.width))
    said = []
    for large in every:
        smaller = [point for point in every if point.batch <= large.batch and point.width <= large.width]
        least = max(smaller, key=lambda point: point.ms)
        if least.ms > FALLS * large.ms and least.ms - large.ms > ERRORS * (least.noise + large.noise):
            said.append(
                f"A forward of {_rows(large)} took {large.ms:.2f} ms and one of {_rows(least)} {least.ms:.2f} ms: "
                "more rows cannot take less time."
            )
    return said


def _slow(calibration: Calibration) -> list[str]:
    """Rounds that take longer beside their forwards than a whole round of plain decoding does."""
    most = max(MIN_OVERHEAD, calibration.verify_ms(1) if calibration.verify else 0.0)
    return [
        f"{'A round of plain decoding' if name == PLAIN else f'A round of {name}'} took {one.overhead:.2f} ms beside "
        f"its forwards, and a forward of one row {calibration.verify_ms(1):.2f} ms."
        for name in calibration.drafting
        if (one := calibration.rounds_of(name)).overhead > most
    ]


def _rows(point: Verify) -> str:
    return f"{point.width} row{'s' if point.width > 1 else ''} at batch {point.batch}"
