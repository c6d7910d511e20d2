"""Sequoia's dynamic program against all possible trees, and its choice against given costs."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftscope.base.progress import Progress
from draftscope.base.steps import Steps, last
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.lane import Lane
from draftscope.decode.rank_acceptance import by_rank
from draftscope.drafters.policy.sequoia import best_shape, best_tree
from draftscope.drafters.settings import Settings
from draftscope.models.probe import probed
from draftscope.verify.tree import Counts
from tests.decode.test_distribution import SAMPLES
from tests.support.distribution import distribution_test
from tests.support.models import byte_tokenizer, random_llama


def every_tree(nodes: int, depth: int, width: int) -> list[tuple[tuple[int, ...], ...]]:
    """All trees as sets of rank paths closed under parents and earlier siblings."""
    paths = [p for n in range(1, depth + 1) for p in itertools.product(range(width), repeat=n)]
    whole = []
    for chosen in itertools.combinations(paths, nodes):
        have = set(chosen)
        if all((p[:-1] in have or len(p) == 1) and (p[-1] == 0 or (*p[:-1], p[-1] - 1) in have) for p in chosen):
            whole.append(chosen)
    return whole


def worth(tree: tuple[tuple[int, ...], ...], rates: list[float]) -> float:
    total = 1.0
    for path in tree:
        product = 1.0
        for rank in path:
            product *= rates[rank]
        total += product
    return total


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0.01, 0.6), min_size=2, max_size=3), st.integers(1, 5), st.integers(1, 3))
def test_no_tree_is_worth_more(rates: list[float], nodes: int, depth: int) -> None:
    trees = every_tree(nodes, depth, len(rates))
    value, counts = best_shape(rates, nodes, depth)
    if not trees:
        assert value == float("-inf")
        return
    assert value == pytest.approx(max(worth(tree, rates) for tree in trees))
    assert sum(map(sum, counts)) == nodes
    assert len(counts) <= depth
    assert all(sum(level) == len(below) for level, below in itertools.pairwise(counts))


def test_likely_first_children_make_a_chain_and_equal_ones_a_wide_tree() -> None:
    assert best_shape([0.9, 0.05], 4, 4)[1] == ((1,), (1,), (1,), (1,))
    assert best_shape([0.3, 0.3, 0.3], 3, 3)[1] == ((3,),)


def test_expensive_rows_and_levels_shape_the_tree() -> None:
    rates = [0.6, 0.2, 0.1]
    dear_levels = best_tree(rates, 8, 6, lambda nodes, levels: 1 + 0.02 * nodes + 0.5 * levels)
    dear_rows = best_tree(rates, 8, 6, lambda nodes, levels: 1 + 0.2 * nodes + 0.01 * levels)
    assert len(dear_levels) < len(dear_rows)
    assert max(map(max, dear_rows)) == 1
    assert best_tree(rates, 8, 6, lambda nodes, levels: 1 + 9.0 * (nodes > 0)) == ()


UNEVEN = ((3,), (2, 0, 1), (0, 2, 1))


def uneven(*_: object) -> Steps[Progress, Counts]:
    yield from ()
    return UNEVEN


@pytest.mark.parametrize("drafter", ["sequoia", "eagle3-sequoia"])
def test_uneven_trees_write_the_targets_distribution(
    tiny: DecodingEngine, drafter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DecodingEngine, "_best_tree", uneven)
    chosen = Settings.of(drafter=drafter, temperature=1.0, seed=5)
    finding = distribution_test(tiny, "abcab", chosen, 4, SAMPLES)
    assert finding.passed, finding.detail
    run = tiny.decode("abcab", drafter, temperature=1.0, max_new_tokens=100)
    parents = {tuple(node.parent for node in event.nodes) for event in run.round_events[:-4]}
    assert parents == {(-1, -1, -1, 0, 0, 2, 4, 4, 5)}
    assert any(event.accepted == 3 for event in run.round_events)


@pytest.mark.parametrize("drafter", ["sequoia", "eagle3-sequoia"])
def test_uneven_trees_end_at_any_length_as_plain_does(
    pair: DecodingEngine, drafter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DecodingEngine, "_best_tree", uneven)
    for length in range(1, 9):
        want = pair.decode("The quick", "plain", max_new_tokens=length)
        assert pair.decode("The quick", drafter, max_new_tokens=length).token_ids == want.token_ids


def test_rates_are_what_each_rank_was_accepted(tiny: DecodingEngine) -> None:
    """A draft that is the target has its first child accepted whenever it is drawn from p itself."""
    twin = DecodingEngine(tiny.target, tiny.target, tiny.tokenizer)
    rates = last(by_rank(twin, Lane.of(twin, Settings.of(drafter="sequoia", temperature=1.0))))
    assert rates[0] == 1.0
    assert set(rates[1:]) == {0.0}
    own = last(by_rank(tiny, Lane.of(tiny, Settings.of(drafter="sequoia", temperature=1.0))))
    assert 0 < own[0] < 1
    assert sum(own) == pytest.approx(1.0)  # five children: every token there is


def test_a_tree_that_never_pays_is_not_drafted(tiny: DecodingEngine) -> None:
    dear = DecodingEngine(tiny.target, tiny.draft, tiny.tokenizer)
    dear.eos = frozenset()
    costs = tiny.calibration.rounds_of("draft").model_copy(update={"overhead": 1000.0})
    dear.calibration = tiny.calibration.model_copy(update={"drafting": tiny.calibration.drafting | {"draft": [costs]}})
    run = dear.decode("abcab", "sequoia", temperature=1.0, max_new_tokens=12)
    assert run.metrics.num_draft_tokens == 0
    assert len(run.round_events) == 12


@pytest.mark.slow
@pytest.mark.usefixtures("little_calibrated")
def test_a_short_context_is_measured_within() -> None:
    """It was refused with a sentence about a prompt that nobody had written."""
    target, draft = random_llama(1, 258), random_llama(2, 258, layers=1, hidden=16)
    for model in (target, draft):
        model.config.max_position_embeddings = 96
    engine = DecodingEngine(probed(target, "short-target"), probed(draft, "short-draft"), byte_tokenizer())
    run = engine.decode("abc", "sequoia", max_new_tokens=16, temperature=1.0, tree_nodes=6, tree_depth=3)
    assert run.token_ids
