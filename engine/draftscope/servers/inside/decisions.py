"""Tests every recorded decision, tensor by tensor in the order in which a step makes them.

Rules (p is softmax(logits / temperature) after truncation; u < min(1, p/q) and nothing else) must hold without
exception, up to rounding. Draws (of u, drafted tokens, corrections, bonuses) are tested by Kolmogorov and Smirnov: a
token's place among the mass of likelier tokens is uniform under the right law. Each draw's test has a fifth of the
false-alarm probability (Bonferroni); the rules have none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from draftscope.servers.inside.recording import DraftedToken, DrawnToken, RecordedRound, TargetRow

FALSE_ALARM = 1e-6
DRAWS = 5  # tests that can be wrong by chance
NATS = 0.02  # between a recorded p and the one of its logits: fp32 is far below
CLOSE = 1e-5  # of u to p/q, relative: the server may compare in fp32
SUMS = 1e-3
LEAST = 1e-6  # below this p is too small to compare


@dataclass(frozen=True)
class TensorFinding:
    """One tensor: how many rows or draws were tested, how many were wrong, and what is wrong, else empty."""

    tensor: str
    tested: int
    wrong: int
    fault: str


def examine(rounds: Sequence[RecordedRound], false_alarm: float = FALSE_ALARM) -> list[TensorFinding]:
    """All tests, in the order in which a step makes the tensors: the first with a fault is the first wrong one."""
    alpha = false_alarm / DRAWS
    drafted = [(step, token) for step in rounds for token in step.drafted]
    after = [(step, step.next.target) for step in rounds if step.next.target is not None]
    sampled = [step for step in rounds if step.temperature > 0]
    uniforms = [token.u for _, token in drafted if token.u is not None]
    return [
        _law("temperature of drafted rows", [(step, token.target) for step, token in drafted]),
        _law("temperature of bonus and plain rows", after),
        _rule("sum of p", (_sums(token.target.sum) for _, token in drafted), "p does not sum to 1"),
        _rule("top-k of p", (_kept(step, token.target) for step, token in drafted), "p keeps more tokens than top-k"),
        _rule("sum of q", (_sums(token.draft.sum) for _, token in drafted if token.draft), "q does not sum to 1"),
        _draws("q", [token.draft for step, token in drafted if token.draft and step.temperature > 0], alpha),
        _uniform("u", uniforms, alpha),
        _fresh("u, used once", uniforms, alpha),
        _rule("verdict", (_verdict(step, token) for step, token in drafted), "not u < min(1, p/q)"),
        _rule("greedy token", (_best(step) for step in rounds), "not the likeliest token at temperature 0"),
        _draws("correction", [step.next for step in sampled if step.kind == "correction"], alpha),
        _draws("bonus", [step.next for step in sampled if step.kind != "correction"], alpha),
    ]


def _rule(tensor: str, right: Iterable[bool | None], fault: str) -> TensorFinding:
    """`right`: None where it cannot be said."""
    said = [verdict for verdict in right if verdict is not None]
    wrong = said.count(False)
    return TensorFinding(tensor, len(said), wrong, f"{fault} in {wrong} of {len(said)}" if wrong else "")


def _law(tensor: str, rows: Sequence[tuple[RecordedRound, TargetRow]]) -> TensorFinding:
    """p against the model's logits; a fault says which temperature the rows had instead, in the median."""
    judged = [(row, right) for step, row in rows if (right := _is_law(step, row)) is not None]
    wrong = [row for row, right in judged if not right]
    if not wrong:
        return TensorFinding(tensor, len(judged), 0, "")
    broken = sum(row.sum is None for row in wrong)
    seen = [value for row in wrong if (value := _temperature(row)) is not None]
    middle = f", {len(seen)} at another temperature (median {np.median(seen):.3g})" if seen else ""
    divisors = ", ".join(f"{value:g}" for value in sorted({step.temperature for step, _ in rows}))
    fault = f"p is not softmax(logits / {divisors}) in {len(wrong)} of {len(judged)} rows: {broken} not numbers{middle}"
    return TensorFinding(tensor, len(judged), len(wrong), fault)


def _is_law(step: RecordedRound, row: TargetRow) -> bool | None:
    """Truncation divides every kept p by the kept mass: log p - (logit / T - log sum) is one number, 0 without it."""
    if row.whole is None:
        return None
    if row.sum is None:
        return False
    temperature = step.temperature or 1.0
    gaps = [math.log(p) - (logit / temperature - row.whole) for p, logit in _pairs(row)]
    most = -math.log(step.top_p) if step.top_p < 1 and step.top_k <= 0 else math.inf  # top-k may keep less
    highest = most if _truncated(step, row) else 0.0
    return bool(gaps) and max(gaps) - min(gaps) < NATS and -NATS < min(gaps) < highest + NATS


def _truncated(step: RecordedRound, row: TargetRow) -> bool:
    return step.temperature > 0 and (step.top_p < 1 or 0 < step.top_k <= row.kept)


def _pairs(row: TargetRow) -> list[tuple[float, float]]:
    return [(p, logit) for _, p, logit in row.top if p is not None and logit is not None and p > LEAST]


def _temperature(row: TargetRow) -> float | None:
    """From the two tokens whose logits are furthest apart; None where p is no number."""
    pairs = sorted(_pairs(row), key=lambda pair: pair[1])
    if row.sum is None or len(pairs) < 2:
        return None
    (low, low_logit), (high, high_logit) = pairs[0], pairs[-1]
    return (high_logit - low_logit) / gap if (gap := math.log(high / low)) else math.inf


def _sums(total: float | None) -> bool:
    return total is not None and abs(total - 1) < SUMS


def _kept(step: RecordedRound, row: TargetRow) -> bool | None:
    """All that are likelier than the least likely one that is kept are fewer than top-k; ties at the edge may stay."""
    if step.temperature == 0 or step.top_k <= 0 or row.sum is None:
        return None
    return row.kept - row.least < step.top_k


def _verdict(step: RecordedRound, token: DraftedToken) -> bool | None:
    """None where nothing was decided, p is no number, or rounding or a tie decides."""
    if token.accepted is None or token.p is None or token.q is None:
        return None
    if step.temperature == 0:
        best = token.target.top[0][1]
        tie = [p for _, p, _ in token.target.top].count(token.p) > 1
        return None if best is None or tie else token.accepted == (token.p == best)
    if token.u is None:
        return False
    if abs(token.u * token.q - token.p) <= CLOSE * token.p:
        return None
    return token.accepted == (token.u * token.q < token.p)


def _best(step: RecordedRound) -> bool | None:
    if step.temperature > 0 or step.next.mass is None:
        return None
    return step.next.above == 0.0


def _draws(tensor: str, drawn: Sequence[DrawnToken], alpha: float) -> TensorFinding:
    """Places of drawn tokens; a token without mass is impossible, and wrong by itself."""
    known = [token for token in drawn if token.sum is not None and token.sum > LEAST]
    impossible = sum(token.mass is None or token.mass <= 0 for token in known)
    if impossible:
        fault = f"{impossible} of {len(known)} tokens cannot come from it"
        return TensorFinding(tensor, len(known), impossible, fault)
    dice = np.random.default_rng(len(known))  # spreads tokens that are equally likely
    places = [((token.above or 0.0) + dice.random() * (token.equal or 0.0)) / (token.sum or 1.0) for token in known]
    return _uniform(tensor, places, alpha)


def _uniform(tensor: str, values: Sequence[float], alpha: float) -> TensorFinding:
    if not values:
        return TensorFinding(tensor, 0, 0, "")
    test = stats.kstest(values, "uniform")
    fault = (
        "" if test.pvalue > alpha else f"not drawn from it: distance {test.statistic:.3f}, p-value {test.pvalue:.1g}"
    )
    return TensorFinding(tensor, len(values), 0, fault)


def _fresh(tensor: str, uniforms: Sequence[float], alpha: float) -> TensorFinding:
    """Equal pairs, beside those that numbers of so many bits have by chance."""
    again = len(uniforms) - len(set(uniforms))
    bits = 24 if all(float(np.float32(value)) == value for value in uniforms) else 53
    due = len(uniforms) ** 2 / 2 ** (bits + 1)
    wrong = again and stats.poisson.sf(again - 1, due) <= alpha
    fault = f"{again} of {len(uniforms)} random numbers were used before" if wrong else ""
    return TensorFinding(tensor, len(uniforms), again if wrong else 0, fault)
