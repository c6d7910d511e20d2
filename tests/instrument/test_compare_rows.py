"""The order of compared drafters, on rows that were made up."""

from __future__ import annotations

import pytest

from tests.support.node import call

TIMES = {"ngram": 1.1, "oracle": 9.0, "draft": 2.0, "broken": None}
ROWS = [
    {"drafter": name, "title": name, "synthetic": name == "oracle", "times": times} for name, times in TIMES.items()
]


@pytest.mark.parametrize(
    ("by", "down", "order"),
    [
        ("times", True, ["draft", "ngram", "broken", "oracle"]),
        ("times", False, ["ngram", "draft", "broken", "oracle"]),
        ("title", False, ["broken", "draft", "ngram", "oracle"]),
    ],
)
def test_a_chosen_acceptance_never_ranks_first(by: str, down: bool, order: list[str]) -> None:
    [rows] = call(["run/compare.js"], [("sortedRows", [ROWS, by, down])])
    assert [row["drafter"] for row in rows] == order
