"""How many threads: chosen by what they took, on costs made up here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from draftscope.lab import Lab
from draftscope.threads import cores, fastest_threads


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def chosen(costs: dict[int, float], most: int) -> tuple[int, list[int]]:
    """The choice where `costs` says how long a forward takes with so many threads, and what was tried."""
    tried: list[int] = []
    now = [0.0]

    def work() -> None:
        tried.append(torch.get_num_threads())
        now[0] += costs[tried[-1]]

    return fastest_threads(work, most, lambda: now[0]), list(dict.fromkeys(tried))


@pytest.mark.parametrize(
    ("costs", "most", "best", "tried"),
    [
        ({1: 3.0}, 1, 1, [1]),
        ({1: 3.0, 2: 2.0}, 2, 2, [1, 2]),
        ({1: 3.0, 2: 3.5, 3: 2.9}, 3, 3, [1, 2, 3]),
        ({1: 3.0, 2: 2.0, 4: 2.9}, 7, 2, [1, 2, 4]),  # far slower than the best: more are not tried
        ({1: 9.0, 2: 6.0, 4: 4.0, 6: 3.0}, 6, 6, [1, 2, 4, 6]),
    ],
)
def test_the_fastest_is_taken(costs: dict[int, float], most: int, best: int, tried: list[int]) -> None:
    assert chosen(costs, most) == (best, tried)
    assert torch.get_num_threads() == best


def test_a_lab_asks_its_own_target(pair: Lab) -> None:
    before = len(pair.target.counter.widths)
    assert pair.choose_threads(1) == torch.get_num_threads() == 1
    assert set(pair.target.counter.widths[before:]) == {5}


def test_there_is_a_core() -> None:
    assert cores() >= 1
