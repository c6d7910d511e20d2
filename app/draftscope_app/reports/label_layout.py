"""Where the labels of single points go, so that none lies on another one or on a point. Pure.

A page does not know how wide its plot will be drawn, so a layout is chosen that fits a phone and a desktop. Each label
in turn moves to the free place that is nearest to its point, until none wants to move; the best of a few starts counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SIZES = ((270.0, 300.0), (420.0, 300.0), (700.0, 300.0), (1100.0, 300.0))  # of the plot's area, px
CHARACTER, HEIGHT = 6.4, 14.0  # of a label in 11 px, px
MARK = 6.0  # from a point's centre to its edge, with a little air
NEAR = 11.0  # from a point to its label; farther ones get a line
DISTANCES = (NEAR, 20.0, 30.0, 42.0, 56.0, 72.0)
SIDES = ((1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1), (0, 1), (0, -1))
STARTS, PASSES = 6, 12


@dataclass(frozen=True)
class Place:
    """Of a label: pixels from its point to its near edge, right and up; `anchor` is the side that is near."""

    right: float
    up: float
    anchor: str  # left, right or center

    @property
    def far(self) -> bool:
        """Whether it needs a line to its point."""
        return max(abs(self.right), abs(self.up)) > NEAR + 3.0


PLACES = tuple(
    Place(
        x * away * (0.7 if y else 1.0), y * (0.7 * away if x else away + 3.0), {1: "left", -1: "right", 0: "center"}[x]
    )
    for away in DISTANCES
    for x, y in SIDES
)


def placed(x: Sequence[float], y: Sequence[float], texts: Sequence[str]) -> list[Place]:
    """A place for each label. `x` and `y` are shares of the plot's area, from its lower left corner."""
    points = np.array([[(a * wide, b * high) for a, b in zip(x, y, strict=True)] for wide, high in SIZES])  # [S, N, 2]
    boxes = np.stack([_boxes(points[:, n], len(text)) for n, text in enumerate(texts)])  # [N, P, S, 2, 4]
    marks = np.concatenate([points - MARK, points + MARK], -1)  # [S, N, 4]
    costs = np.stack([_cost_alone(box, np.delete(marks, n, 1)) for n, box in enumerate(boxes)])  # [N, P]
    draws = np.random.default_rng(0)
    starts = [costs.argmin(1), *(draws.integers(0, len(PLACES), len(texts)) for _ in range(STARTS - 1))]
    _, best = min((_settled(start.tolist(), costs, boxes) for start in starts), key=lambda settled: settled[0])
    return [PLACES[at] for at in best]


def _settled(chosen: list[int], costs: Floats, boxes: Floats) -> tuple[float, list[int]]:
    """The labels' places once none wants to move, and what they cost together."""
    for _ in range(PASSES):
        before, total = list(chosen), 0.0
        for n, box in enumerate(boxes):
            others = [boxes[m, at] for m, at in enumerate(chosen) if m != n]  # each [S, 2, 4]
            cost = costs[n] + (_overlaps(box, np.concatenate(others, 1)) if others else 0.0)
            chosen[n] = int(cost.argmin())
            total += float(cost[chosen[n]])
        if chosen == before:
            break
    return total, chosen


def _boxes(points: Floats, letters: int) -> Floats:
    """[P, S, 2, 4]: left, bottom, right and top of a label at each place, in each size, and of the line to it; `points`
    are [S, 2]. The line of a label that is near has no area."""
    wide = CHARACTER * letters
    left = np.array([p.right - {"left": 0.0, "right": wide, "center": wide / 2}[p.anchor] for p in PLACES])
    low = np.array([p.up - HEIGHT / 2 for p in PLACES])
    label = np.stack([left, low, left + wide, low + HEIGHT], -1)
    ends = np.array([(p.right, p.up) if p.far else (0.0, 0.0) for p in PLACES])
    thick = np.array([float(p.far) for p in PLACES])[:, None]
    line = np.concatenate([np.minimum(ends, 0.0) - thick, np.maximum(ends, 0.0) + thick], -1)
    both = np.stack([label, line], 1)  # [P, 2, 4]
    return np.asarray(both[:, None] + np.concatenate([points, points], -1)[None, :, None], dtype=np.float64)


def _cost_alone(boxes: Floats, marks: Floats) -> Floats:
    """[P]: how much of it leaves the area or covers other points, and then how far it is from its own point."""
    areas, label = np.array(SIZES), boxes[:, :, 0]
    outside = np.maximum(0.0, -label[..., :2]).sum(-1) + np.maximum(0.0, label[..., 2:] - areas).sum(-1)  # [P, S]
    far = np.array([np.hypot(place.right, place.up) for place in PLACES])
    preferred = np.arange(len(PLACES)) * 1e-3  # of equals the first
    return np.asarray(20.0 * outside.sum(-1) + _overlaps(boxes, marks) + far + preferred, dtype=np.float64)


def _overlaps(boxes: Floats, others: Floats) -> Floats:
    """[P]: how much of `others` ([S, M, 4]) each place covers with its boxes ([P, S, 2, 4]), in pixels of way."""
    mine, theirs = boxes[:, :, :, None], others[None, :, None]
    sides = np.maximum(0.0, np.minimum(mine[..., 2:], theirs[..., 2:]) - np.maximum(mine[..., :2], theirs[..., :2]))
    area = sides.prod(-1)  # [P, S, 2, M]
    return np.asarray(((area > 0) * 200.0 + area).sum((1, 2, 3)), dtype=np.float64)
