"""The estimate of the Decide stage, from runs as the page folds them: the shape that was run, and where it ends."""

from __future__ import annotations

from typing import Any

import pytest

from draftscope.base.assets import assets
from draftscope.trace import files
from tests.support.node import call

FILES = ["doors/decide/estimate/forecast.js", "run/speed.js", "base/numbers.js"]
Json = dict[str, Any]


def store_of(events: list[Any]) -> Json:
    """A finished run as base/store.js folds it, as far as the forecast reads it."""
    lanes: dict[str, Json] = {}
    names = {
        "run_start": "start",
        "prefill": "prefill",
        "run_end": "end",
        "solo_runs": "solo",
        "verify_costs": "verify",
    }
    for event in events:
        values = event.model_dump()
        lane = lanes.setdefault(event.lane, {"rounds": [], "tokens": [], "solo": None, "verify": None, "clock": 0.0})
        if values["kind"] == "round":
            lane["tokens"] += [{"id": token} for token in values["emitted"]]
            lane["rounds"].append(values | {"tokensAfter": len(lane["tokens"])})
        else:
            lane[names[values["kind"]]] = values
        lane["clock"] = max(lane["clock"], values.get("end") or 0.0)
    return {"run": "r", "over": True, "lanes": list(lanes.values())}


@pytest.fixture(scope="module")
def store() -> Json:
    """The sampled run of the page's opening: chains of two."""
    return store_of(list(files.read(assets() / "traces" / "sampled.jsonl.gz").events))


@pytest.fixture(scope="module")
def terms(store: Json) -> Json:
    (found,) = call(FILES, [("termsOf", [store])])
    return found


def measured(terms: Json, **moved: float) -> Json:
    left_alone = {"acceptance": terms["kept"][0], "draft": terms["c"], "rows": 1, "requests": 1}
    return {**left_alone, "length": terms["length"], **moved}


def test_the_estimate_is_what_watch_says_of_the_shape_that_was_run(store: Json, terms: Json) -> None:
    draft, plain = (next(lane for lane in store["lanes"] if lane["start"]["drafter"] == name) for name in (
        "eagle3", "plain",
    ))  # fmt: skip
    (watch, costs, points) = call(
        FILES,
        [
            ("speedup", [draft, plain, max(draft["clock"], plain["clock"])]),
            ("costsOf", [draft, plain]),
            ("curve", [terms, 1, terms["length"]]),
        ],
    )
    own = points[2]
    assert own["ratio"] == pytest.approx(watch["ratio"]) and watch["source"] == "runs"
    assert round(own["nodes"]) == 2  # the last round had fewer
    assert own["tau"] == pytest.approx(costs["tau"])  # what its rounds kept
    assert own["cost"] == pytest.approx(costs["tau"] / costs["predicted"], rel=0.08)  # its v was measured after the run
    assert terms["modelledRatio"] == pytest.approx(watch["ratio"], rel=0.05)  # before any correction
    said, why = call(FILES, [("headline", [points, terms]), ("basis", [terms])])
    assert said.startswith(
        f"By this estimate it pays: about {watch['ratio']:.2f} times plain decoding, with 2 drafted tokens a round"
    )
    assert said.endswith(".")
    assert (
        f"Watch measured {watch['ratio']:.2f} in {watch['n']} whole runs" in why
        and f"{terms['modelledRatio']:.2f}" in why
    )


def test_levels_that_were_not_run_are_marked_and_never_advised(terms: Json) -> None:
    free = {**terms, "steps": [0.0, 0.0], "o": 0.0, "rows": {**terms["rows"], "v": [1.0] * len(terms["rows"]["v"])}}
    points, same = call(FILES, [("curve", [free, 1, 80]), ("curve", [terms, 1, 80])])
    assert [point["ran"] for point in points] == [True] * 3 + [False] * 4
    assert points[3]["ratio"] > points[2]["ratio"] and round(points[3]["nodes"]) == 3
    (top,) = call(FILES, [("best", [points])])
    assert top["level"] == 2 and same[0]["ratio"] == 1


def test_a_slider_left_alone_changes_nothing(terms: Json) -> None:
    same, other = call(
        FILES,
        [
            ("changed", [terms, measured(terms)]),
            ("changed", [terms, measured(terms, acceptance=0.9, draft=0.0, rows=2)]),
        ],
    )
    assert same["kept"] == pytest.approx(terms["kept"]) and same["steps"] == pytest.approx(terms["steps"])
    assert same["rows"]["v"] == pytest.approx(terms["rows"]["v"])
    assert other["kept"][0] == pytest.approx(0.9) and other["kept"][1] > terms["kept"][1] and other["steps"] == [0, 0]
    assert other["rows"]["v"][1] - 1 == pytest.approx(2 * (terms["rows"]["v"][1] - 1))


def test_it_says_where_it_stops_paying(terms: Json) -> None:
    (said,) = call(FILES, [("flips", [terms, measured(terms)])])
    requests = int(said.split(" concurrent")[0].split()[-1])
    (least,) = [float(word) for word in said.split() if word.startswith(".")]
    for moved, pays in (
        ({"requests": requests}, False), ({"requests": requests - 1}, True),
        ({"acceptance": least - 0.02}, False), ({"acceptance": least + 0.02}, True),
    ):  # fmt: skip
        set_ = measured(terms, **moved)
        (now,) = call(FILES, [("changed", [terms, set_])])
        (points,) = call(FILES, [("curve", [now, set_["requests"], set_["length"]])])
        assert (max(point["ratio"] for point in points if point["ran"]) > 1) is pays, moved
    free = {**terms, "steps": [0.0, 0.0], "o": 0.0, "rows": {"widths": [1, 512], "v": [1.0, 1.0], "noise": [0, 0]}}
    cases = [("flips", [terms, measured(terms, acceptance=0.01)]), ("flips", [free, measured(free)])]
    off, never = call(FILES, cases)
    assert off == ""
    assert never == "It pays with 64 concurrent requests too, and however few drafted tokens are accepted."


def test_a_run_without_plain_or_without_drafts_gives_nothing(store: Json) -> None:
    alone = {**store, "lanes": [lane for lane in store["lanes"] if lane["start"]["drafter"] != "plain"]}
    running = {**store, "over": False, "lanes": [{**lane, "end": None} for lane in store["lanes"]]}
    assert call(FILES, [("termsOf", [alone]), ("termsOf", [running])]) == [None, None]
