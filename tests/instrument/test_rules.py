"""The page's acceptance rules (assets/instrument/decision) against the engine's, on vectors that verify/rules.py gives.

verify/rules.py is proved by enumeration; here the JavaScript of the page gets the same distributions, thresholds and
random numbers, under node, and has to return the same. Cases are drawn from fixed seeds: tokens with probability 0,
disjoint supports, q = p, all mass on one token, blocks with a weight of 1.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from draftscope.verify import rules
from tests.support.node import call

FILES = ["decision/distributions.js", "decision/sampled-rules.js"]
Distribution = list[float]
Case = tuple[str, list[Any], Any]  # a function of the page, its arguments, and what the engine's rule gives


@dataclass(frozen=True)
class Pair:
    """A target and a draft distribution, and two tokens that the draft could have sampled, one after the other."""

    p: Distribution
    q: Distribution
    drafted: list[int]

    @property
    def recorded(self) -> dict[str, Any]:
        """As a trace holds the two, with nothing left out."""
        ids = list(range(len(self.p)))
        return {"ids": ids, "p": self.p, "q": self.q, "rest_p": 0.0, "rest_q": 0.0, "rest_min": 0.0}


def norm(values: Sequence[float]) -> Distribution:
    return [x / sum(values) for x in values]


def distribution(draw: random.Random, size: int) -> Distribution:
    """Weights from 0 to 9, so that some tokens have none; at least two have some."""
    values = [draw.randint(0, 9) for _ in range(size)]
    values[draw.randrange(size - 1)] += 1
    values[-1] += 1
    return norm(values)


def pairs(count: int, seed: int) -> Iterator[Pair]:
    """`count` random pairs, and the edges."""
    draw = random.Random(seed)

    def pair(p: Distribution, q: Distribution) -> Pair:
        able = [token for token, y in enumerate(q) if y > 0]
        return Pair(p, q, draw.sample(able, min(2, len(able))))

    for _ in range(count):
        size = draw.randint(2, 6)
        yield pair(distribution(draw, size), distribution(draw, size))
    yield pair([0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.25, 0.75])  # disjoint supports
    yield pair([0.25, 0.25, 0.5], [0.25, 0.25, 0.5])  # q = p: the residual has no mass
    yield pair([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])  # all mass on one token, and another
    yield pair([0.0, 1.0], [0.0, 1.0])  # the same one
    yield pair([0.0, 0.125, 0.875], [1.0, 0.0, 0.0])  # without its only token q has no mass


def pick(probabilities: Sequence[float], u: float) -> int:
    """The token at u of the cumulative distribution."""
    for token, below in enumerate(itertools.accumulate(probabilities)):
        if u < below:
            return token
    return max(token for token, x in enumerate(probabilities) if x > 0)


def check(cases: Sequence[Case]) -> None:
    assert len(cases) > 50
    found = call(FILES, [(name, args) for name, args, _ in cases])
    for (name, args, wanted), got in zip(cases, found, strict=True):
        assert got == pytest.approx(wanted, rel=1e-9, abs=1e-12), (name, args)


# How a rejection changes p and q, and the token rule.


def test_residual_and_removal_are_the_engines() -> None:
    cases: list[Case] = []
    for pair in pairs(200, seed=1):
        for weight in (1, 0.75, 0.25, 0):
            cases.append(("residual", [pair.p, pair.q, weight], rules.residual(pair.p, pair.q, weight)))
        cases.append(("without", [pair.q, pair.drafted[0]], rules.without(pair.q, pair.drafted[0])))
    check(cases)


def test_acceptance_probabilities_are_the_engines() -> None:
    cases: list[Case] = []
    for pair in pairs(200, seed=2):
        for token in pair.drafted:
            faced = [pair.p[token], pair.q[token]]
            cases.append(("acceptProbability", faced, rules.accept_probability(pair.p, pair.q, token)))
            for lenience in (0.25, 0.5, 1.0):
                wanted = rules.lenient_probability(pair.p, pair.q, token, lenience)
                cases.append(("acceptProbability", [*faced, lenience], wanted))
    check(cases)


# Sampling: the same random numbers give the same token.


def sampled(pair: Pair, count: int, uniforms: Sequence[float]) -> int:
    """One token by RRSw, by the engine's rules."""
    draws = iter(uniforms)
    children: list[int] = []
    left, drawn_from = pair.p, pair.q
    for _ in range(count):
        if not any(drawn_from):
            break
        children.append(pick(drawn_from, next(draws)))
        rows, left = rules.sibling_rows(pair.p, pair.q, children)
        if next(draws) < rows[-1].threshold:
            return children[-1]
        drawn_from = rules.without(rows[-1].q, children[-1])
    return pick(left, next(draws))


def test_a_token_without_probability_is_never_sampled() -> None:
    tenths = [0.1] * 10  # which sum to less than 1 in floating point
    wanted = {(0.0, 0.5, 0.5): {0.0: 1, 0.25: 1, 0.5: 2}, (0.5, 0.5, 0.0): {0.0: 0, 0.75: 1, 1 - 2**-53: 1}}
    found = call(FILES, [("pick", [list(row), u]) for row, tokens in wanted.items() for u in tokens])
    assert found == [token for tokens in wanted.values() for token in tokens.values()]
    assert call(FILES, [("pick", [[*tenths, 0.0], 1 - 2**-53])]) == [9]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_siblings_sampled_once_give_the_engines_token(count: int) -> None:
    cases: list[Case] = []
    draw = random.Random(3)
    for pair in pairs(300, seed=3):
        uniforms = [draw.random() for _ in range(2 * count + 1)]
        probs = {"p": pair.p, "q": pair.q}
        wanted = sampled(pair, count, uniforms)
        cases.append(("sampledOnce", [probs, count, False, {"uniforms": uniforms}], wanted))
    check(cases)


def test_deterministic_children_give_the_targets_own_sample() -> None:
    cases: list[Case] = []
    draw = random.Random(4)
    for pair in pairs(200, seed=4):
        u = draw.random()
        own = pick(pair.p, u)
        index = rules.deterministic_child(pair.drafted, own)
        wanted = own if index is None else pair.drafted[index]
        cases.append(("topKOnce", [{"p": pair.p}, pair.drafted, False, {"uniforms": [u]}], wanted))
    check(cases)


# Blocks.


@dataclass(frozen=True)
class Chain:
    p_rows: list[Distribution]
    q_rows: list[Distribution]
    tokens: list[int]

    @property
    def decisions(self) -> list[dict[str, Any]]:
        """As a trace holds them, each with a u that fails."""
        weights, thresholds = rules.block_thresholds(self.p_rows, self.q_rows, self.tokens)
        rows = zip(self.p_rows, self.q_rows, self.tokens, weights, thresholds, strict=False)
        return [
            {
                "distributions": [Pair(p, q, []).recorded],
                "children": [{"p": p[x], "q": q[x], "weight": weight, "threshold": h, "passed": False}],
            }
            for p, q, x, weight, h in rows
        ]


def chains() -> Iterator[Chain]:
    draw = random.Random(5)
    for _ in range(120):
        gamma, size = draw.randint(1, 4), draw.randint(2, 5)
        p_rows = [distribution(draw, size) for _ in range(gamma + 1)]
        q_rows = [distribution(draw, size) for _ in range(gamma)]
        yield Chain(p_rows, q_rows, [draw.choice([x for x, y in enumerate(q) if y > 0]) for q in q_rows])
    same = [[0.5, 0.25, 0.25]] * 4
    yield Chain(same, same[:3], [0, 1, 2])  # q = p: all weights are 1
    yield Chain([[0.9, 0.1]] * 3, [[0.1, 0.9]] * 2, [0, 1])  # a weight of 1, then one below
    yield Chain([[1.0, 0.0]] * 3, [[0.0, 1.0]] * 2, [1, 1])  # disjoint: all weights are 0


def test_block_weights_are_the_engines() -> None:
    found = [([decision["children"][0] for decision in chain.decisions], chain) for chain in chains()]
    check(
        [
            ("blockWeights", [children], rules.block_thresholds(chain.p_rows, chain.q_rows, chain.tokens)[0])
            for children, chain in found
        ]
    )


def test_accepted_lengths_of_a_block_are_the_engines() -> None:
    draw = random.Random(6)
    cases: list[Case] = []
    for chain in chains():
        _, thresholds = rules.block_thresholds(chain.p_rows, chain.q_rows, chain.tokens)
        uniforms = [draw.random() for _ in thresholds]
        accepted = rules.block_accepted(thresholds, uniforms)
        cases.append(("blockOnce", [thresholds, {"uniforms": uniforms}], accepted))
        wanted = [0.0] * (len(thresholds) + 1)
        for passed in itertools.product([True, False], repeat=len(thresholds)):
            chance = math.prod(h if own else 1 - h for h, own in zip(thresholds, passed, strict=True))
            outcome = [-1.0 if own else 2.0 for own in passed]  # a u below, or above, any threshold
            wanted[rules.block_accepted([0.5] * len(passed), outcome)] += chance
        cases.append(("blockLengths", [thresholds], wanted))
    check(cases)


def test_a_block_with_another_random_number_follows_the_engines_rule() -> None:
    cases: list[Case] = []
    for chain in chains():
        _, thresholds = rules.block_thresholds(chain.p_rows, chain.q_rows, chain.tokens)
        for index, threshold in enumerate(thresholds):
            for u in (threshold / 2, (1 + threshold) / 2):
                outcome = [2.0] * len(thresholds)
                outcome[index] = u
                tau = rules.block_accepted(thresholds, outcome)
                last = rules.block_last(chain.p_rows, chain.q_rows, chain.tokens, tau)
                known = None if tau == len(thresholds) else last
                cases.append(("decideBlockAgain", [chain.decisions, index, u], (tau, known)))
    compare(cases)


def compare(cases: Sequence[Case]) -> None:
    """`decideBlockAgain` against (tau, distribution). Lumps for tokens that were left out are 0 here and fall away."""
    found = call(FILES, [(name, args) for name, args, _ in cases])
    assert {tau for _, _, (tau, _) in cases} == {0, 1, 2, 3, 4}
    for (_, args, (tau, known)), got in zip(cases, found, strict=True):
        assert got["tau"] == tau, args
        if known is None:
            assert got["distribution"] is None
        else:
            assert got["distribution"][: len(known)] == pytest.approx(known, rel=1e-9, abs=1e-12), args


# A sibling with another random number.


def test_a_sibling_rejected_after_all_faces_what_the_engine_says() -> None:
    cases: list[tuple[Pair, float, list[Any]]] = []
    for pair in pairs(200, seed=7):
        rows, left = rules.sibling_rows(pair.p, pair.q, pair.drafted[:1])
        threshold = rows[0].threshold
        if threshold >= 1:
            continue
        child = {"threshold": threshold, "passed": True}
        decision = {"children": [child], "distributions": [pair.recorded]}
        cases.append((pair, threshold, [decision, 0, (1 + threshold) / 2, pair.drafted]))
    assert len(cases) > 50
    found = call(FILES, [("decideAgain", args) for _, _, args in cases])
    for (pair, _, args), got in zip(cases, found, strict=True):
        rows, left = rules.sibling_rows(pair.p, pair.q, pair.drafted)
        if len(pair.drafted) == 1:
            assert got["distribution"][: len(left)] == pytest.approx(left, rel=1e-9, abs=1e-12), args
            continue
        token = pair.drafted[1]
        wanted = {"p": rows[1].p[token], "q": rows[1].q[token], "threshold": rows[1].threshold}
        assert got["next"] == pytest.approx(wanted, rel=1e-9, abs=1e-12), args


# Lossy rules.


def test_lossy_rules_accept_what_the_engines_accept() -> None:
    cases: list[Case] = []
    for pair in pairs(200, seed=8):
        tokens = range(len(pair.p))
        count, lenience = 2, 0.4
        if sorted(pair.p)[-count] == 0:
            continue
        thresholds = {"typical": rules.typical_threshold(pair.p), "top-k": sorted(pair.p)[-count], "lenient": 1.0}
        wanted = {
            "typical": [float(rules.typical_accepts(pair.p, x)) for x in tokens],
            "top-k": [float(rules.top_k_accepts(pair.p, x, count)) for x in tokens],
            "lenient": [rules.lenient_probability(pair.p, pair.q, x, lenience) if pair.q[x] else 1.0 for x in tokens],
        }
        for rule, accepts in wanted.items():
            decision = {
                "rule": rule,
                "distributions": [pair.recorded],
                "children": [{"threshold": thresholds[rule]}],
            }
            args = [decision, {"p": pair.p, "q": pair.q}, lenience]
            cases.append(("lossyAccept", args, accepts))
            last = rules.residual(pair.p, pair.q) if rule == "lenient" else pair.p
            cases.append(("lossyLast", [rule, {"p": pair.p, "q": pair.q}], last))
    check(cases)


def test_a_lossy_rule_sampled_once_gives_the_engines_token() -> None:
    draw = random.Random(9)
    cases: list[Case] = []
    for pair in pairs(200, seed=9):
        accept = [draw.random() for _ in pair.p]
        last = rules.residual(pair.p, pair.q)
        first, u, second = (draw.random() for _ in range(3))
        token = pick(pair.q, first)
        wanted = token if u < accept[token] else pick(last, second)
        args = [{"q": pair.q}, accept, last, {"uniforms": [first, u, second]}]
        cases.append(("lossyOnce", args, wanted))
    check(cases)


# What a trace leaves out.


def test_sums_over_tokens_that_were_left_out_stay_exact() -> None:
    pairs_ = [pair for pair in pairs(100, seed=10) if len(pair.p) > 2]
    recorded = [
        {
            "ids": [0, 1],
            "p": pair.p[:2],
            "q": pair.q[:2],
            "rest_p": sum(pair.p[2:]),
            "rest_q": sum(pair.q[2:]),
            "rest_min": sum(map(min, pair.p[2:], pair.q[2:])),
        }
        for pair in pairs_
    ]
    for pair, lumped in zip(pairs_, call(FILES, [("lump", [probs]) for probs in recorded]), strict=True):
        assert sum(lumped["p"]) == pytest.approx(1) and sum(lumped["q"]) == pytest.approx(1)
        assert sum(map(min, lumped["p"], lumped["q"])) == pytest.approx(sum(map(min, pair.p, pair.q)))
        full, own = rules.residual(pair.p, pair.q), rules.residual(lumped["p"], lumped["q"])
        if pair.p != pair.q:
            assert own[:2] == pytest.approx(full[:2], abs=1e-9)
