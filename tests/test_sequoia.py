"""Sequoia's dynamic programme against every tree there is, and its choice against the costs it is given."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftscope.drafters.sequoia import best_shape, best_tree


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


def test_likely_first_children_make_a_chain_and_even_ones_a_bush() -> None:
    assert best_shape([0.9, 0.05], 4, 4)[1] == ((1,), (1,), (1,), (1,))
    assert best_shape([0.3, 0.3, 0.3], 3, 3)[1] == ((3,),)


def test_dear_rows_and_dear_levels_shape_the_tree() -> None:
    rates = [0.6, 0.2, 0.1]
    dear_levels = best_tree(rates, 8, 6, lambda nodes, levels: 1 + 0.02 * nodes + 0.5 * levels)
    dear_rows = best_tree(rates, 8, 6, lambda nodes, levels: 1 + 0.2 * nodes + 0.01 * levels)
    assert len(dear_levels) < len(dear_rows)
    assert max(map(max, dear_rows)) == 1
    assert best_tree(rates, 8, 6, lambda nodes, levels: 1 + 9.0 * (nodes > 0)) == ()
