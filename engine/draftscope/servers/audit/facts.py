"""What the tests need to know of a written token and the distribution it was sampled from: a few numbers a token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from draftscope.servers.audit.plan import Allowance
from draftscope.servers.audit.warp import Flags, Floats, Ints, warped
from draftscope.servers.programs.program import Step
from draftscope.verify.sampling import Sampling

TILTS = (-0.4, -0.2, -0.1, -0.05, 0.05, 0.1, 0.2, 0.4, 0.8)  # bets on p^(1 + tilt); each doubled must be computed too
BUCKETS = 509  # tokens by number, modulo this: a small vocabulary has a bucket for each
POWERS = tuple(sorted({*TILTS, *(2 * tilt for tilt in TILTS)}))


@dataclass(frozen=True)
class Facts:
    """One text, token by token; T tokens. p is the target's distribution after the server's settings.

    Tokens that do not count (at the edge of a truncation) have 0 everywhere.
    """

    prompt: int
    tokens: tuple[int, ...]  # every token that ends a text is the first of them
    counted: Flags  # [T]
    outside: Flags  # [T] the settings exclude this token
    logp: Floats  # [T] log p of the token
    mean: Floats  # [T] E log p
    variance: Floats  # [T] Var log p
    norms: Floats  # [T, len(TILTS)] log sum p^(1 + tilt)
    spreads: Floats  # [T, len(TILTS)] standard deviation of p^tilt / sum p^(1 + tilt) under p
    pit: Floats  # [T] randomised probability integral transform of the rank: uniform on [0, 1) under p
    bucket: Ints  # [T] the token's bucket
    masses: Floats  # [T, BUCKETS or V if that is less] probability of each bucket

    @property
    def score(self) -> Floats:
        """[T] log p minus its expectation: mean 0 and known variance, whatever was written before."""
        return self.logp - self.mean


def facts_of(
    prompt: int,
    tokens: Sequence[int],
    logits: Floats,
    sampling: Sampling,
    order: tuple[Step, ...],
    allowance: Allowance,
    dice: np.random.Generator,
    ends: Sequence[int] = (),
) -> Facts:
    """logits [T, V] from which each of `tokens` [T] was to be chosen -> the numbers the tests need.

    Several tokens that end a text count as one: a server may not say which of them it wrote.
    """
    written = np.asarray(tokens)
    logs, edge = warped(logits, sampling, order, allowance.logit)
    if len(ends) > 1:
        logs, edge, written = _one_end(logs, edge, written, list(ends))
    rows = np.arange(len(written))
    logp = logs[rows, written]
    at_edge = np.zeros(len(written), bool) if edge is None else edge[rows, written]
    outside = ~at_edge & np.isneginf(logp)
    counted = ~at_edge & ~outside
    double = [POWERS.index(2 * tilt) for tilt in TILTS]
    single = [POWERS.index(tilt) for tilt in TILTS]
    sums = _power_sums(logs)
    spreads = np.sqrt(np.maximum(np.expm1(sums[:, double] - 2 * sums[:, single]), 0))
    mean, variance = _moments(logs)
    finite = np.where(counted, logp, 0.0)
    return Facts(
        prompt=prompt,
        tokens=tuple(written.tolist()),
        counted=counted,
        outside=outside,
        logp=finite,
        mean=mean * counted,
        variance=variance * counted,
        norms=sums[:, single] * counted[:, None],
        spreads=spreads * counted[:, None],
        pit=_ranked(logs, finite, dice) * counted,
        bucket=written % BUCKETS,
        masses=_masses(logs),
    )


def _one_end(
    logs: Floats, edge: Flags | None, written: np.ndarray, ends: list[int]
) -> tuple[Floats, Flags | None, np.ndarray]:
    """All tokens that end a text become the first of them."""
    logs[:, ends[0]] = np.logaddexp.reduce(logs[:, ends], -1)
    logs[:, ends[1:]] = -np.inf
    if edge is not None:
        edge[:, ends[0]] = edge[:, ends].any(-1)
        logs[:, ends[0]] = np.where(edge[:, ends[0]], -np.inf, logs[:, ends[0]])
    return logs, edge, np.where(np.isin(written, ends), ends[0], written)


def _power_sums(logs: Floats) -> Floats:
    """[T, V] -> log sum p^(1 + power) [T, len(POWERS)], in fp32: its rounding is far below the allowance."""
    short = logs.astype(np.float32)
    sums = [np.exp(short * np.float32(1 + power)).sum(-1, dtype=np.float64) for power in POWERS]
    result: Floats = np.log(np.stack(sums, -1))
    return result


def _moments(logs: Floats) -> tuple[Floats, Floats]:
    """Mean and variance [T] of log p under p."""
    p, finite = np.exp(logs), np.where(np.isneginf(logs), 0.0, logs)
    mean = (p * finite).sum(-1)
    return mean, np.maximum((p * finite**2).sum(-1) - mean**2, 0.0)


def _masses(logs: Floats) -> Floats:
    """[T, V] -> [T, BUCKETS], or [T, V] if that is less."""
    if logs.shape[-1] <= BUCKETS:
        return np.exp(logs)
    folded = np.zeros((len(logs), -(-logs.shape[-1] // BUCKETS) * BUCKETS))
    folded[:, : logs.shape[-1]] = np.exp(logs)
    masses: Floats = folded.reshape(len(logs), -1, BUCKETS).sum(1)
    return masses


def _ranked(logs: Floats, logp: Floats, dice: np.random.Generator) -> Floats:
    """The mass of all more probable tokens, and a uniform share of the mass of the equally probable ones [T]."""
    better, p = logs > logp[:, None], np.exp(logs)
    equal = logs == logp[:, None]
    above, within = (p * better).sum(-1), (p * equal).sum(-1)
    place: Floats = np.clip(above + dice.random(len(logp)) * within, 0.0, np.nextafter(1.0, 0.0))
    return place
