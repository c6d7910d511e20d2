"""Speed over plain decoding by draft length, from a pair's few numbers: what a slider changes is seen at once.

    S = tokens a round / (gamma c + v + o)

One record, `Terms`, from a calibration with the acceptance that was measured, or from a recorded run. The page draws
the same curve with the same formula (`assets/instrument/decide/calculator.js`); a test holds the two equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from draftscope.base.costs import PLAIN, Calibration
from draftscope.trace.events import AnyEvent, Round, RunStart, VerifyCosts

MOST_GAMMA = 8
TREE = "; acceptance by depth is that of its tree, whose siblings raise it above a chain's"


@dataclass(frozen=True)
class Terms:
    """Of one drafter. Costs are in rounds of plain decoding of one sequence.

    `acceptance[k]` is the chance that drafted token k + 1 is accepted if all before it were; the last one holds for all
    longer drafts. `v[i]` is the cost of a plain round whose forward has `rows[i]` rows in all, and `o` what drafting
    adds to a round beside its steps of `c` each. Beyond the last number of rows nothing is known: it grows by the row.
    """

    drafter: str
    acceptance: tuple[float, ...]
    c: float
    o: float
    rows: tuple[int, ...]
    v: tuple[float, ...]
    before: float = 0.0  # prefill that drafting adds
    source: str = ""  # where the numbers come from, in words


@dataclass(frozen=True)
class CurvePoint:
    """One draft length: tokens a round, the cost of a round over plain's, and the speed over plain's."""

    gamma: int
    tau: float
    cost: float
    ratio: float


def curve(terms: Terms, requests: int = 1, length: int = 128) -> list[CurvePoint]:
    """Every draft length from 0 (plain decoding) on, for `requests` answers of `length` tokens that are written
    together; they verify requests x (gamma + 1) rows."""
    plain = _rows_cost(terms, requests)
    gathered = []
    for gamma in range(MOST_GAMMA + 1):
        kept = [terms.acceptance[min(place, len(terms.acceptance) - 1)] for place in range(gamma)]
        tau = 1 + float(np.cumprod(kept).sum())
        cost = (gamma * terms.c + _rows_cost(terms, requests * (gamma + 1)) + terms.o * (gamma > 0)) / plain
        before = requests * terms.before * (gamma > 0) / (length * plain)
        gathered.append(CurvePoint(gamma, tau, cost, 1 / (cost / tau + before)))
    return gathered


def best(points: Sequence[CurvePoint]) -> CurvePoint:
    """The fastest; plain decoding where nothing is faster."""
    return max(points, key=lambda point: point.ratio)


def calibrated_terms(calibration: Calibration, drafter: str, acceptance: Sequence[float]) -> Terms:
    """Costs measured on this machine."""
    drafting, plain = calibration.rounds_of(drafter), calibration.plain_ms
    rest = calibration.rounds_of(PLAIN).overhead
    rows = tuple(calibration.curve.widths)
    return Terms(
        drafter=drafter,
        acceptance=tuple(acceptance),
        c=(drafting.step + drafting.accept_step) / plain,
        o=(drafting.overhead - rest) / plain,
        rows=rows,
        v=tuple((calibration.verify_ms(entry) + rest) / plain for entry in rows),
        source=f"measured on this machine, {calibration.measured_for.target}",
    )


def recorded_terms(events: Iterable[AnyEvent]) -> Terms | None:
    """Of the first lane with a drafter in a recorded race with plain decoding; None where costs were not recorded."""
    every = list(events)
    names = {entry.lane: entry for entry in every if isinstance(entry, RunStart)}
    lane = next((name for name, start in names.items() if start.drafter != PLAIN), None)
    plains = [entry for entry in every if isinstance(entry, Round) and names[entry.lane].drafter == PLAIN]
    rounds = [entry for entry in every if isinstance(entry, Round) and entry.lane == lane and entry.depth > 0]
    costs = next((entry for entry in every if isinstance(entry, VerifyCosts)), None)
    if lane is None or costs is None or not rounds or not plains:
        return None
    plain, forward = median(map(_ms, plains)), median(entry.timings.verify for entry in plains)
    rest = plain - forward
    steps = median(sum(entry.timings.propose) / entry.depth for entry in rounds)
    beside = median(_ms(entry) - sum(entry.timings.propose) - entry.timings.verify for entry in rounds)
    model = names[lane].models[0].name
    return Terms(
        drafter=names[lane].drafter,
        acceptance=tuple(_acceptance(rounds)),
        c=steps / plain,
        o=max(0.0, (beside - rest) / plain),
        rows=tuple(costs.widths),
        v=tuple((entry * forward + rest) / plain for entry in costs.v),
        source=f"recorded with {model} on {names[lane].device}{TREE if any(map(_branches, rounds)) else ''}",
    )


def _branches(entry: Round) -> bool:
    return len({node.parent for node in entry.nodes}) < len(entry.nodes)


def _ms(entry: Round) -> float:
    timings = entry.timings
    return sum(timings.propose) + timings.verify + timings.accept + timings.commit + timings.host


def _acceptance(rounds: Sequence[Round]) -> list[float]:
    """By position, given that all before was accepted; as far as at least one round came."""
    gathered = []
    for place in range(max(entry.depth for entry in rounds)):
        reached = [entry.accepted > place for entry in rounds if entry.depth > place and entry.accepted >= place]
        if reached:
            gathered.append(sum(reached) / len(reached))
    return gathered


def _rows_cost(terms: Terms, rows: int) -> float:
    if rows <= terms.rows[-1]:
        return float(np.interp(rows, terms.rows, terms.v))
    return terms.v[-1] * rows / terms.rows[-1]
