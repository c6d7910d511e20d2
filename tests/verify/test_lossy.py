"""Lossy rules: tensors equal the readable rules, outputs follow the enumerated distribution, and runs are marked."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from draftscope import DraftscopeError
from draftscope.base.common_settings import LOSSY
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.measure import check as checks
from draftscope.measure.findings import FALSE_ALARM, verdict
from draftscope.measure.joint import chi_square, distances, exact_joint, joint_distance, sampled_joint
from draftscope.models.model import Model
from draftscope.verify import rules, verify
from draftscope.verify.drawing import draw
from draftscope.verify.sampling import Sampling
from draftscope.verify.tree import chain
from draftscope.verify.uniforms import Streams
from tests.decode.test_distribution import SAMPLES
from tests.verify.test_rules import (
    Distribution,
    DistributionAt,
    Drafter,
    Siblings,
    Tokens,
    Verify,
    distributions,
    output_distribution,
    rows_of,
)
from tests.verify.test_rules import chain as chain_shape
from tests.verify.test_verify import drawn_tree, random_distributions

HALF, ONE = Fraction(1, 2), Fraction(1)
every_rule = pytest.mark.parametrize("rule", LOSSY)


def accepts(rule: verify.Rule, p: Distribution, q: Distribution, token: int) -> float:
    """The probability that the readable rules accept a draft."""
    if rule.name == "typical":
        return float(rules.typical_accepts(p, token))
    if rule.name == "top-k":
        return float(rules.top_k_accepts(p, token, rule.agreement))
    return float(rules.lenient_probability(p, q, token, rule.lenience))


def last_distribution(rule: verify.Rule, p: Distribution, q: Distribution) -> list[float]:
    """The distribution of the token after a rejection."""
    return list(rules.residual(p, q)) if rule.name == "lenient" else list(p)


@every_rule
@pytest.mark.parametrize("seed", range(3))
def test_lossy_verification_equals_the_readable_rules(rule: str, seed: int) -> None:
    chosen = verify.Rule(rule, lenience=0.6, agreement=2)
    tree, p = drawn_tree(chain(3, 64), seed), random_distributions(seed + 50, 64, 4)
    uniforms = Streams(seed, tuple(range(64))).uniforms(0, 3)
    found = verify.verify_lossy(p, tree, uniforms, chosen)
    for b in range(64):
        accepted = 0
        while accepted < 3:
            distribution, q = p[b, accepted].tolist(), tree.distributions[b, accepted].tolist()
            if uniforms.accept[b, accepted] >= accepts(chosen, distribution, q, int(tree.tokens[b, accepted])):
                break
            accepted += 1
        distribution = p[b, accepted].tolist()
        left = (
            distribution
            if accepted == 3
            else last_distribution(chosen, distribution, tree.distributions[b, accepted].tolist())
        )
        last = int(draw(torch.tensor(left), uniforms.last[b, accepted]))
        assert (int(found.accepted[b]), int(found.last[b])) == (accepted, last)
        assert [node for node in found.path[b].tolist() if node >= 0] == list(range(accepted))


def lossy_verify(rule: verify.Rule) -> Verify:
    """One round of a chain under a lossy rule: every outcome and its probability."""

    def outcomes(p: DistributionAt, prefix: Tokens, siblings: Siblings) -> Iterator[tuple[Fraction, Tokens]]:
        p_rows, q_rows, tokens = rows_of(p, prefix, siblings)
        reached = 1.0
        for i, token in enumerate(tokens):
            a = accepts(rule, p_rows[i], q_rows[i], token)
            for x, mass in enumerate(last_distribution(rule, p_rows[i], q_rows[i])):
                yield reached * (1 - a) * mass, (*tokens[:i], x)  # type: ignore[misc]
            reached *= a
        for x, mass in enumerate(p_rows[-1]):
            yield reached * mass, (*tokens, x)  # type: ignore[misc]

    return outcomes


def distribution_of(model: Model, prompt: list[int]) -> DistributionAt:
    """The model's distribution after the prompt and a prefix, computed without a cache."""

    @cache
    @torch.inference_mode()
    def distribution(prefix: Tokens) -> Distribution:
        logits = model.network(torch.tensor([[*prompt, *prefix]]), use_cache=False).logits[0, -1]
        return logits.double().softmax(-1).tolist()

    return distribution


@every_rule
def test_output_follows_the_enumerated_distribution(tiny: DecodingEngine, rule: str) -> None:
    """The real loop, with caches and streams, follows the rule's enumerated distribution and not the target's."""
    settings = Settings.of(drafter="draft", rule=rule, gamma=2, temperature=1.0, seed=3, agreement=2)
    prompt = tiny.encode("abcab")
    drafter = Drafter(distribution_of(tiny.draft, prompt), chain_shape(2))
    written = lossy_verify(verify.Rule(rule, agreement=2))
    enumerated = output_distribution(distribution_of(tiny.target, prompt), drafter, written, 3)
    due = {tokens: float(mass) for tokens, mass in enumerated.items() if mass}
    seen = sampled_joint(tiny, prompt, settings, 3, SAMPLES)
    target = exact_joint(tiny, prompt, Sampling(), 3)
    assert chi_square(seen, due, SAMPLES)[2] >= FALSE_ALARM
    assert chi_square(seen, target, SAMPLES)[2] < FALSE_ALARM
    apart, divergence = distances(due, target)
    assert apart > 0.05
    assert 0 < divergence < math.inf


@given(distributions(2), st.fractions(Fraction(1, 8), 1))
@hypothesis_settings(max_examples=60, deadline=None)
def test_lenience_bounds_how_often_a_token_appears(both: tuple[Distribution, ...], lenience: Fraction) -> None:
    p, q = both
    accept = [rules.lenient_probability(p, q, x, lenience) if y else ONE for x, y in enumerate(q)]
    found = rules.output_distribution(q, accept, rules.residual(p, q))
    assert sum(found) == 1
    assert all(w <= x / lenience for w, x in zip(found, p, strict=True))


@given(distributions(2))
@hypothesis_settings(max_examples=60, deadline=None)
def test_lenience_of_one_is_the_token_rule(both: tuple[Distribution, ...]) -> None:
    p, q = both
    accept = [rules.lenient_probability(p, q, x, ONE) if y else ONE for x, y in enumerate(q)]
    assert rules.output_distribution(q, accept, rules.residual(p, q)) == p


def test_edge_cases_of_the_lossy_rules() -> None:
    certain, flat = [ONE, ONE * 0, ONE * 0], [Fraction(1, 3)] * 3
    assert rules.typical_threshold(certain) == pytest.approx(0.09)
    assert rules.typical_threshold(flat) == pytest.approx(0.03)
    assert [rules.typical_accepts(certain, x) for x in range(3)] == [True, False, False]
    assert [rules.top_k_accepts(certain, x, 2) for x in range(3)] == [True, False, False]
    assert [rules.top_k_accepts([HALF, HALF / 2, HALF / 2], x, 2) for x in range(3)] == [True, True, True]
    assert rules.lenient_probability([HALF, HALF], [ONE, ONE * 0], 0, HALF) == 1


def test_distances_of_equal_and_of_different_distributions() -> None:
    one, two = {(0,): 0.5, (1,): 0.5}, {(0,): 0.25, (1,): 0.75}
    assert distances(one, one) == (0.0, 0.0)
    assert distances(two, one) == pytest.approx((0.25, 0.25 * math.log(0.5) + 0.75 * math.log(1.5)))
    assert distances({(2,): 1.0}, one) == (1.0, math.inf)


@every_rule
@pytest.mark.parametrize("drafter", ["plain", "ngram", "sampled-tree", "topk-tree"])
def test_a_drafter_without_a_choice_of_rule_stays_exact(tiny: DecodingEngine, rule: str, drafter: str) -> None:
    """This includes a sampled tree whose shape is a chain."""
    common = {"temperature": 1.0, "max_new_tokens": 30, "seed": 4, "shape": (1, 1), "record": False}
    want = tiny.decode("abcab", drafter, rule="token", **common).token_ids
    run = tiny.decode("abcab", drafter, rule=rule, **common)
    assert run.token_ids == want and run.start.exact


def test_lossy_rules_accept_more_the_more_lenient_they_are(pair: DecodingEngine) -> None:
    def accepted(**settings: object) -> float:
        runs = [pair.decode("abc", temperature=1.0, max_new_tokens=80, seed=s, **settings) for s in (1, 2)]
        return sum(run.metrics.draft_acceptance_rate for run in runs)

    exact = accepted(rule="token")
    assert exact < accepted(rule="lenient", lenience=0.5) < accepted(rule="lenient", lenience=0.05)
    assert accepted(rule="top-k", agreement=5) < accepted(rule="top-k", agreement=100)


def test_check_reports_the_distance_of_a_lossy_rule_without_a_test(
    tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "TESTS", ())  # those that compare greedy texts
    findings = list(checks.check(tiny, "draft", samples=600, rule="lenient"))
    assert findings[-1].name == "distance of the joint distribution (lenient)"
    assert findings[-1].p_value is None
    assert "lossy by design" in findings[-1].detail
    assert all(finding.passed for finding in findings)
    assert verdict(findings, exact=False).startswith("This drafter's rule is lossy by design")
    with pytest.raises(DraftscopeError, match="'ngram' has no choice of rule"):
        list(checks.check(tiny, "ngram", rule="lenient"))


def test_the_noise_reported_beside_a_distance_is_that_of_exact_samples(tiny: DecodingEngine) -> None:
    settings = Settings.of(drafter="plain", temperature=1.0, seed=1)
    found = joint_distance(tiny, tiny.encode("abcab"), settings, 3, 3000)
    assert 0.6 < found.total_variation / found.sampling_total_variation < 1.5
