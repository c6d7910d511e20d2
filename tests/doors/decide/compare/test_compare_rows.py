"""The order of compared drafters, on rows that were made up."""

from __future__ import annotations

import pytest

from tests.support.node import call

TIMES = {"ngram": 1.1, "oracle": 9.0, "draft": 2.0, "broken": None}
ROWS = [
    {"drafter": name, "title": name, "synthetic": name == "oracle", "times": times} for name, times in TIMES.items()
]


PLAIN = {"lane": "plain", "drafter": "plain", "tokens": 8, "rounds": 8, "drafted": 0, "seconds": [1.0, 1.2, 1.1]}


def test_a_drafter_that_gains_no_token_says_why_and_each_speed_has_its_range() -> None:
    own = {"tokens": 8, "rounds": 8, "seconds": [0.5, 0.8, 1.1], "idle": "no earlier text repeats"}
    lanes = {
        "idle": own | {"drafted": 0}, "silent": own | {"drafted": 0, "idle": ""}, "refuted": own | {"drafted": 3},
        "good": own | {"drafted": 9, "rounds": 4}, "old": own,
    }  # fmt: skip
    events = [PLAIN, *({"lane": name, "drafter": name} | lane for name, lane in lanes.items())]
    [rows] = call(["doors/decide/compare/compared-rows.js"], [("comparedRows", [events])])
    assert {row["drafter"]: row["why"] for row in rows} == {
        "plain": "", "idle": "drafted nothing here: no earlier text repeats", "silent": "drafted nothing here",
        "refuted": "none of its 3 drafted tokens was accepted", "good": "", "old": "",
    }  # fmt: skip
    assert rows[1]["range"] == pytest.approx([2.0, 1.5, 1.0]) and rows[1]["times"] == pytest.approx(1.1 / 0.8)


def made(name: str, ratios: list[float], tau: float = 4.0, **more: object) -> dict[str, object]:
    times = sorted(ratios)[len(ratios) // 2] if ratios else None
    row = {
        "drafter": name,
        "lane": name,
        "title": name,
        "synthetic": name == "oracle",
        "range": ratios,
        "times": times,
        "tau": tau,
    }
    return row | more


def test_what_of_a_ranking_is_noise_is_said() -> None:
    fast, near = made("eagle3", [1.5, 1.52, 1.55]), made("draft", [1.4, 1.45, 1.51])
    slow = made("ngram", [1.0, 1.0, 1.1])
    plain, oracle = made("plain", [1.0, 1.0, 1.0], 1.0), made("oracle", [8.0, 9.0, 9.0], 1.0)
    quiet = [plain, oracle, fast, slow]
    lucky = made("suffix", [1.07, 1.39, 1.74], 1.33)
    waiting = made("block", [])
    asked = [quiet, [*quiet, near], [plain, lucky, slow, waiting], [plain]]
    sure, two, noisy, none = call(
        ["doors/decide/compare/compared-rows.js"], [("noiseOfRows", [rows]) for rows in asked]
    )
    assert sure == none == []
    assert two == ["which of the 2 marked ≈ is fastest is not known: their ranges overlap"]
    assert noisy == [
        "which of the 2 marked ≈ is fastest is not known: their ranges overlap",
        "pairs of runs of one drafter disagree by up to 63%",
        "a speedup above τ is not the drafter's: suffix (τ 1.33)",
    ]
    even = call(["doors/decide/compare/compared-rows.js"], [("evenWithFastest", [rows]) for rows in asked])
    assert even == [[], ["eagle3", "draft"], ["suffix", "ngram"], []]
    flags = call(
        ["doors/decide/compare/compared-rows.js"], [("isNoise", [row]) for row in (lucky, fast, plain, waiting)]
    )
    assert flags == [True, False, False, False]


@pytest.mark.parametrize(
    ("by", "down", "order"),
    [
        ("times", True, ["draft", "ngram", "broken", "oracle"]),
        ("times", False, ["ngram", "draft", "broken", "oracle"]),
        ("title", False, ["broken", "draft", "ngram", "oracle"]),
    ],
)
def test_a_chosen_acceptance_never_ranks_first(by: str, down: bool, order: list[str]) -> None:
    [rows] = call(["doors/decide/compare/compared-rows.js"], [("sortedRows", [ROWS, by, down])])
    assert [row["drafter"] for row in rows] == order
