"""Lengths decided while drafting: each rule does what its paper or library does, with made-up costs and outcomes."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from draftscope.base.costs import Calibration, Drafting
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.length import (
    MAX_RETRY_AFTER,
    RETRY_AFTER,
    Confidence,
    Cost,
    Entropy,
    Heuristic,
    Length,
    PerSequence,
    WholeDraft,
    lengths_of,
)
from draftscope.drafters.options import ChainOptions
from draftscope.drafters.settings import Settings
from tests.support.models import made_calibration


class Alone(Length):
    """By cost, in a batch of one."""

    def __init__(self, cost: Callable[[int], float], most: int) -> None:
        self._batch = Cost(lambda gamma, batch: cost(gamma), most, 1)

    def begin(self) -> bool:
        return self._batch.begin()[0]

    def should_continue(self, q: float, entropy: float) -> bool:
        return self._batch.go_on([True], [q], list)[0]

    def observe(self, accepted: int) -> None:
        self._batch.observe([accepted])


def drafted(rule: Length, most: int, q: float = 0.5) -> int:
    """How many tokens the rule drafts in one round, each of probability `q` under the draft."""
    if not rule.begin():
        return 0
    for count in range(1, most + 1):
        if not rule.should_continue(q, 1.0):
            return count
    return most


def test_confidence_stops_after_the_first_unlikely_token() -> None:
    rule = Confidence(0.4)
    assert rule.begin()
    assert [rule.should_continue(q, 1.0) for q in (0.9, 0.4, 0.39)] == [True, True, False]


def test_the_heuristic_adds_two_and_takes_one() -> None:
    rule, lengths = Heuristic(8), []
    for whole in (True, True, True, False, False):
        lengths.append(drafted(rule, 8))
        rule.observe(lengths[-1] if whole else 0)
    assert lengths == [5, 7, 8, 8, 7]
    for _ in range(12):
        drafted(rule, 8)
        rule.observe(0)
    assert drafted(rule, 8) == 1


@pytest.mark.parametrize(
    ("rule", "reads"), [("confidence", False), ("heuristic", False), ("specdec++", False), ("adaedl", True)]
)
def test_only_the_rule_that_reads_the_entropy_has_it_computed(rule: str, reads: bool) -> None:
    computed: list[bool] = []
    lengths = lengths_of(ChainOptions(draft_length=rule), lambda gamma, batch: 1.0, 4, 1)
    assert lengths is not None
    lengths.go_on(lengths.begin(), [0.9], lambda: computed.append(True) or [0.5])
    assert bool(computed) == reads


def test_by_entropy_it_stops_after_a_flat_distribution() -> None:
    """1 - sqrt(0.2 H) falls below 0.4 at H = 1.8 nats, whatever the token's own probability."""
    rule = Entropy(0.4)
    assert rule.begin()
    assert [rule.should_continue(q, entropy) for q, entropy in ((0.9, 0.0), (0.1, 1.79), (0.9, 1.81))] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(("alpha", "length"), [(0.9, 9), (0.7, 3), (0.5, 2), (0.2, 1)])
def test_the_whole_draft_must_be_likely_to_be_accepted(alpha: float, length: int) -> None:
    """If every token is accepted with probability alpha, it stops at the first length where alpha^length < 0.4."""
    rule, uniform, lengths = WholeDraft(0.4), random.Random(3), []
    for _ in range(3000):
        lengths.append(drafted(rule, 20))
        rule.observe(next((i for i in range(lengths[-1]) if uniform.random() >= alpha), lengths[-1]))
    assert abs(sorted(lengths[500:])[1250] - length) <= (1 if alpha == 0.9 else 0)


def test_the_whole_draft_is_the_product_of_its_tokens_estimates() -> None:
    rule = WholeDraft(0.5)
    for _ in range(300):
        for q, stands in ((0.95, True), (0.05, False)):
            rule.begin()
            rule.should_continue(q, 1.0)
            rule.observe(int(stands))
    assert drafted(rule, 8, q=0.05) == 1
    assert drafted(rule, 8, q=0.95) == 8


def simulated(alpha: float, cost: list[float], rounds: int = 4000) -> tuple[float, float]:
    """Tokens per cost with the rule, and with the best fixed length; tokens are accepted with probability `alpha`."""
    uniform, most = random.Random(7), len(cost) - 1
    rule = Alone(lambda gamma: cost[gamma], most)
    tokens = spent = 0.0
    for _ in range(rounds):
        count = drafted(rule, most)
        accepted = next((i for i in range(count) if uniform.random() >= alpha), count)
        rule.observe(accepted)
        tokens, spent = tokens + accepted + 1, spent + cost[count]
    best = max(sum(alpha**i for i in range(gamma + 1)) / cost[gamma] for gamma in range(most + 1))
    return tokens / spent, best


@pytest.mark.parametrize("alpha", [0.05, 0.3, 0.6, 0.8, 0.95])
@pytest.mark.parametrize("step", [0.05, 0.15, 0.4])
def test_by_cost_it_comes_close_to_the_best_fixed_length(alpha: float, step: float) -> None:
    reached, best = simulated(alpha, [1.0, *(1.15 + step * gamma for gamma in range(1, 9))])
    assert reached > 0.95 * best


@pytest.mark.parametrize(("price", "drafts"), [(1.94, False), (1.82, True)])
def test_by_cost_a_draft_must_win_a_twentieth(price: float, drafts: bool) -> None:
    """An always accepted token doubles the tokens; at a cost of 1.94 plain rounds that wins 3%, at 1.82 10%."""
    rule = Alone(lambda gamma: price if gamma else 1.0, 1)
    asked = []
    for _ in range(400):
        asked.append(rule.begin())
        rule.should_continue(0.5, 1.0)
        rule.observe(1)
    assert sum(asked[-MAX_RETRY_AFTER:]) == MAX_RETRY_AFTER if drafts else sum(asked[-MAX_RETRY_AFTER:]) <= 1


def test_by_cost_two_rejections_at_the_start_do_not_end_it() -> None:
    rule = Alone(lambda gamma: 1 + 0.4 * gamma, 1)
    for _ in range(2):
        assert rule.begin()
        rule.should_continue(0.5, 1.0)
        rule.observe(0)
    assert rule.begin()


def test_by_cost_it_sees_past_a_step_in_the_price() -> None:
    """The first drafted token alone would not pay; four together do."""
    reached, best = simulated(0.9, [1.0, 2.1, 2.15, 2.2, 2.25])
    assert reached > 0.95 * best > 1.6


def test_by_cost_a_hopeless_draft_costs_almost_nothing() -> None:
    reached, best = simulated(0.0, [1.0, *(1.3 + 0.13 * gamma for gamma in range(1, 9))])
    assert best == 1
    assert reached > 0.98


def test_by_cost_it_continues_after_likely_tokens_only() -> None:
    rule = Alone(lambda gamma: 1 + 0.3 * gamma, 8)
    for _ in range(300):
        for q, stands in ((0.95, True), (0.05, False)):
            if rule.begin():
                rule.should_continue(q, 1.0)
                rule.observe(int(stands))
    assert drafted(rule, 8, q=0.05) == 1
    assert drafted(rule, 8, q=0.95) > 1


def rounds_drafted(bad: int, rounds: int = 600) -> list[int]:
    """The rounds in which the rule drafts, if tokens are accepted before round `bad` and never again."""
    rule = Alone(lambda gamma: 1 + 0.9 * gamma, 4)
    asked = []
    for number in range(1, rounds + 1):
        if rule.begin():
            asked.append(number)
            rule.should_continue(0.5, 1.0)
            rule.observe(int(number < bad))
    return asked


@pytest.mark.parametrize("bad", [0, 7, 30])
def test_by_cost_it_tries_again_less_and_less_often(bad: int) -> None:
    last = rounds_drafted(bad)[-8:]
    assert all(number % RETRY_AFTER == 0 for number in last)
    assert [later - sooner for sooner, later in pairwise(last)][-3:] == [MAX_RETRY_AFTER] * 3


def batched(alphas: list[float], costs: list[float], rounds: int = 4000) -> float:
    """Tokens of all rows per cost, divided by plain's."""
    uniform, most = random.Random(7), len(costs) - 1
    rule = Cost(lambda gamma, batch: costs[gamma], most, len(alphas))
    tokens = spent = 0.0
    for _ in range(rounds):
        going, count = rule.begin(), 0
        while any(going) and count < most:
            going, count = rule.go_on(going, [0.5] * len(alphas), list), count + 1
        accepted = [next((i for i in range(count) if uniform.random() >= alpha), count) for alpha in alphas]
        rule.observe(accepted)
        tokens, spent = tokens + sum(accepted) + len(alphas), spent + costs[count]
    return tokens / spent / len(alphas)


def test_by_cost_one_row_does_not_make_all_others_pay() -> None:
    costs = [1.0, *(1.1 + 0.2 * gamma for gamma in range(1, 5))]
    assert batched([0.9, 0.05, 0.05, 0.05], costs) > 0.98
    assert batched([0.9, 0.9, 0.9, 0.05], costs) > 1.3


def test_by_cost_it_drafts_again_when_that_pays_again() -> None:
    rule = Alone(lambda gamma: 1 + 0.2 * gamma, 4)
    asked = []
    for number in range(600):
        asked.append(rule.begin())
        if asked[-1]:
            rule.should_continue(0.5, 1.0)
            rule.observe(int(number >= 300))
    assert sum(asked[100:300]) <= 200 // RETRY_AFTER
    assert all(asked[-50:])


def test_a_run_asks_for_the_costs_of_its_own_drafter(pair: DecodingEngine) -> None:
    """If drafting is free, a chain has its full length; if it is very expensive, nothing is drafted."""
    calibration = pair.calibration
    try:
        plain = [Drafting(batch=1, step=0.0, overhead=1.0, accept_step=0.0)]
        free, dear = ([Drafting(batch=1, step=step, overhead=0.0, accept_step=0.0)] for step in (0.0, 500.0))
        depths = []
        for own in (free, dear):
            pair.calibration = made_calibration(drafting={"plain": plain, "draft": own})
            run = pair.decode("The quick brown fox", "draft", gamma=3, draft_length="cost", max_new_tokens=40)
            depths.append([event.depth for event in run.round_events])
        assert depths[0][0] == 3
        assert max(depths[1]) <= 1
        assert sum(depths[1]) <= 1 + 40 // RETRY_AFTER
    finally:
        pair.calibration = calibration


def test_a_batch_asks_for_the_costs_of_its_own_size_and_context(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: set[tuple[str, int, int]] = set()

    def watched(self: Calibration, drafter: str, gamma: int, batch: int, context: int) -> float:
        asked.add((drafter, batch, context))
        return 1.0

    monkeypatch.setattr(Calibration, "round_cost", watched)
    for drafter in ("draft", "eagle3", "block"):
        settings = Settings.of(drafter=drafter, gamma=3, draft_length="cost", max_new_tokens=4)
        for batch in (1, 3):
            next(pair.start_batch([[5, 6, 7]] * batch, settings, tuple(range(batch))).steps())
    assert asked == {(drafter, batch, 5) for drafter in ("draft", "eagle3", "block") for batch in (1, 3)}


def test_by_cost_the_remaining_rows_use_the_costs_of_their_smaller_batch() -> None:
    """A draft pays for one sequence but not for four: the last one left drafts at once."""
    rule = Cost(lambda gamma, batch: 1 + gamma * (0.1 if batch == 1 else 2.0), 3, 4)
    assert rule.begin() == [False] * 4
    rule.observe([0] * 4)
    rule.select_rows([2])
    assert rule.begin() == [True]


def test_the_remaining_rows_keep_their_own_rules() -> None:
    rules = [Confidence(0.9), Heuristic(8), Confidence(0.1)]
    each = PerSequence(rules)
    each.select_rows([1, 2])
    assert each.begin() == [True, True]
    assert each.go_on([True, True], [0.5, 0.05], lambda: [1.0, 1.0]) == [True, False]
