"""How large a difference this audit could still have missed, with a power of 95%.

Two yardsticks, each computed from the audit's own texts and bets:

- *nats a token*: the log-probability of the written tokens lies by d nats below or above its expectation, at every
  token. A tilt t then has the wealth t * n * d - cost(t) on average, where cost(t) was added up exactly, with the
  standard deviation |t| * sqrt(sum of variances). The smallest d for which some tilt passes the threshold nine times
  out of ten and more (z = 1.645) is reported, for both signs the larger one.
- *total variation of the ranks*: half of the probability mass, by rank, gets 1/2 + d instead of 1/2. This is the
  hardest histogram at distance d: its divergence from uniform is the least, near 2 d^2 (Pinsker's inequality). The bet
  grows by g nats a token with the standard deviation s; what it pays for learning the histogram is
  (bins - 1) / 2 * log n times the square of the share bet (Krichevsky and Trofimov 1981).

The threshold of each is log(1 / false alarm) plus the logarithm of its weight among all bets. Differences of another
shape, such as one that leaves ranks and mean as they are, may be larger than these and still be missed; the bets on
tokens and contexts look for them without a guarantee.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from draftscope.servers.audit.bets import BINS, SHARES
from draftscope.servers.audit.evidence import WEIGHTS, Evidence
from draftscope.servers.audit.facts import TILTS

POWER, DEVIATIONS = 0.95, 1.645


@dataclass(frozen=True)
class Missed:
    """The smallest differences that would have been found with a chance of `power`; None: none would."""

    variation: float | None  # total variation of the ranks
    nats: float | None  # of the mean log-probability, a token
    power: float = POWER


def missed(evidence: Evidence, false_alarm: float) -> Missed:
    return Missed(_variation(evidence, false_alarm), _nats(evidence, false_alarm))


def _nats(evidence: Evidence, false_alarm: float) -> float | None:
    n = evidence.counted
    if not n:
        return None
    need = math.log(len(TILTS) / (WEIGHTS["score"] * false_alarm))
    noise = DEVIATIONS * math.sqrt(evidence.variance)
    shifts = {
        sign: min(
            (need + cost + abs(tilt) * noise) / (abs(tilt) * n)
            for tilt, cost in zip(TILTS, evidence.score.costs, strict=True)
            if math.copysign(1, tilt) == sign
        )
        for sign in (-1.0, 1.0)
    }
    return float(max(shifts.values()))


def _variation(evidence: Evidence, false_alarm: float) -> float | None:
    n = evidence.counted
    if n < BINS:
        return None
    need = math.log(len(SHARES) / (WEIGHTS["ranks"] * false_alarm))
    variations = [d for share in SHARES if (d := _least(n, share, need, evidence.allowance.eta)) is not None]
    return min(variations, default=None)


def _least(n: int, share: float, need: float, eta: float) -> float | None:
    learning = (BINS - 1) / 2 * math.log(n) * share**2

    def surplus(d: float) -> float:
        lift = 2 * d * share
        win, lose = np.log1p(lift) - np.log1p(eta * lift), np.log1p(-lift) - np.log1p(eta * lift)
        growth = (0.5 + d) * win + (0.5 - d) * lose
        spread = (win - lose) * math.sqrt((0.5 + d) * (0.5 - d))
        return float(n * growth - learning - DEVIATIONS * math.sqrt(n) * spread - need)

    most = 0.49
    return float(brentq(surplus, 1e-6, most)) if surplus(most) > 0 else None
