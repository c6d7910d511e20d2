"""What rounds cost on this machine: the curves that every choice of a draft length and every prediction reads.

A round that drafts gamma tokens takes gamma x (one draft step) + verify(gamma + 1 rows) + overhead; plain decoding
takes verify(1) + its own overhead. Divided by plain's round these are the field's c, v and o, and the speedup to expect
at an acceptance length tau is S = tau / (gamma c + v + o) (2211.17192, the verify cost measured, not taken as 1).
`calibrate.py` measures; this module only knows, and imports no torch.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

PLAIN = "plain"


class Known(BaseModel):
    """Base of everything here."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Belongs(Known):
    """What the figures belong to: where any of this differs, they are measured anew."""

    target: str
    target_hash: str
    draft: str
    draft_hash: str
    ballast: str
    forward: str  # of the target: 'compiled', 'graphs', or empty
    device: str
    dtype: str
    threads: int
    torch: str
    transformers: str
    draftscope: str

    @property
    def key(self) -> str:
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]


class Verify(Known):
    """One target forward: milliseconds for `width` rows of `batch` sequences behind `context` tokens."""

    width: int
    batch: int
    context: int
    ms: float


class Drafting(Known):
    """A drafter's rounds, in ms, fitted to measured ones: `step` for each token more, `overhead` for the rest.

    `overhead` is everything that is neither a draft step nor the target's forward: uniforms, judging, committing, text.
    `verify_step` is what each drafted token adds to it. Plain decoding has an overhead alone.
    """

    batch: int
    step: float
    overhead: float
    accept_step: float


class Machine(Known):
    """GB/s of a large copy (read and written bytes counted) and GFLOP/s of a large product, in the pair's dtype."""

    copy_gb_s: float
    matmul_gflop_s: float


class Calibration(Known):
    """One pair on one machine. `context` is the context at which widths and batches were measured."""

    belongs: Belongs
    created: str
    context: int
    verify: list[Verify]
    drafting: dict[str, list[Drafting]]  # by drafter, plain decoding among them, at one batch or more
    machine: Machine
    target_bytes: int
    differing_widths: list[int]  # widths at which row 0 is not bit for bit what it is alone

    @property
    def plain_ms(self) -> float:
        """One round of plain decoding, batch 1."""
        return self.round_ms(PLAIN, 0, 0)

    @property
    def bandwidth_share(self) -> float:
        """Bytes of the target's weights per second of its forward, divided by the measured copy."""
        return self.target_bytes / 1e6 / self.verify_ms(1) / self.machine.copy_gb_s

    def verify_ms(self, width: int, batch: int = 1, context: int | None = None) -> float:
        """A target forward, interpolated: linear in rows, in log2 of the batch, and in tokens of context."""
        batches = sorted({point.batch for point in self.verify})
        by_batch = [self._line(width, each) + self._beyond(context or self.context, each) for each in batches]
        return float(np.interp(np.log2(batch), np.log2(batches), by_batch))

    def _line(self, width: int, batch: int) -> float:
        points = sorted((p.width, p.ms) for p in self.verify if p.batch == batch and p.context == self.context)
        widths, times = zip(*points, strict=True)
        if width <= widths[-1]:
            return float(np.interp(width, widths, times))
        return float(times[-1] * width / widths[-1])  # beyond what was measured: no cheaper a row than the last

    def _beyond(self, context: int, batch: int) -> float:
        """What a context other than the usual adds to one row of each sequence.

        Longer ones were measured with one sequence alone, and add as much for each of a batch.
        """
        points = sorted((p.context, p.ms) for p in self.verify if p.batch == batch and p.width == 1)
        contexts, times = zip(*points, strict=True)
        more = float(np.interp(context, contexts, times) - np.interp(self.context, contexts, times))
        if batch == 1 or context <= contexts[-1]:
            return more
        return more + batch * (self._beyond(context, 1) - self._beyond(contexts[-1], 1))

    def rounds_of(self, drafter: str, batch: int = 1) -> Drafting:
        """Its figures for a batch: on the line through those at the two nearest ones that were measured."""
        found = sorted(self.drafting[drafter], key=lambda each: abs(math.log(each.batch / batch)))[:2]
        if len(found) == 1:
            return found[0]
        near, far = found
        share = (batch - near.batch) / (far.batch - near.batch)
        names = ("step", "overhead", "accept_step")
        along = {name: getattr(near, name) + share * (getattr(far, name) - getattr(near, name)) for name in names}
        return Drafting(batch=batch, **{name: max(0.0, value) for name, value in along.items()})

    def c(self, drafter: str) -> float:
        """One draft step, divided by a round of plain decoding."""
        return self.rounds_of(drafter).step / self.plain_ms

    def v(self, width: int) -> float:
        """A verify forward of `width` rows, divided by a round of plain decoding."""
        return self.verify_ms(width) / self.plain_ms

    def round_cost(self, drafter: str, gamma: int, batch: int = 1, context: int | None = None) -> float:
        """A round that drafts `gamma` tokens, divided by a round of plain decoding; 1 where nothing is drafted."""
        return self.tree_cost(drafter, gamma, gamma, batch, context)

    def tree_cost(self, drafter: str, nodes: int, levels: int, batch: int = 1, context: int | None = None) -> float:
        """The same of a tree, whose `nodes` are verified and whose `levels` are draft steps."""
        if nodes == 0:
            return 1.0
        return self.round_ms(drafter, nodes, levels, batch, context) / self.round_ms(PLAIN, 0, 0, batch, context)

    def round_ms(self, drafter: str, nodes: int, levels: int, batch: int = 1, context: int | None = None) -> float:
        """A round of `batch` sequences that verifies `nodes` drafted tokens each, drafted in `levels` steps."""
        own = self.rounds_of(drafter, batch)
        drafting = own.overhead + levels * own.step + nodes * own.accept_step
        return drafting + self.verify_ms(nodes + 1, batch, context)

    def speedup(self, drafter: str, gamma: int, tau: float) -> float:
        """S = tau / (gamma c + v + o), tokens a second divided by plain's."""
        return tau / self.round_cost(drafter, gamma)


def home() -> Path:
    """Where calibrations are kept: $DRAFTSCOPE_CACHE, else the user's cache folder."""
    base = os.environ.get("DRAFTSCOPE_CACHE") or Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return Path(base) / "draftscope" / "calibration"


def known(belongs: Belongs) -> Calibration | None:
    """What was measured for exactly this, or None; a damaged file counts as none."""
    path = home() / f"{belongs.key}.json"
    try:
        found = Calibration.model_validate_json(path.read_text())
    except (OSError, ValidationError):
        return None
    return found if found.belongs == belongs else None


def keep(calibration: Calibration) -> Path | None:
    """Writes it for later runs; None where the folder cannot be written (the figures still hold for this run)."""
    path = home() / f"{calibration.belongs.key}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(calibration.model_dump(mode="json"), indent=1))
    except OSError:
        return None
    return path
