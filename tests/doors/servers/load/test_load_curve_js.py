"""What the page folds from a load test, and which files it opens, called under node as the page calls it."""

from __future__ import annotations

import json
from typing import Any

from tests.support.node import call

Json = dict[str, Any]


def told(name: str, *given: Any) -> Any:
    return call(["doors/servers/load/load-curve.js"], [(name, list(given))])[0]


def point(lane: str, concurrency: int, speed: float, drafted: int | None = None, **more: Any) -> Json:
    counted = (
        None if drafted is None else {"rounds": max(1, drafted // 4), "drafted": drafted, "accepted": drafted // 2}
    )
    return {
        "lane": lane, "concurrency": concurrency, "finished": 3, "failed": 0, "tokens_per_second": speed,
        "good_per_second": speed / 10, "latency_p50": 1.0, "latency_p99": 2.0, "ttft_p50": 0.1, "ttft_p99": None,
        "tpot_p50": 0.01, "counted": counted, "failure": None,
    } | more  # fmt: skip


def document(**own: Any) -> Json:
    points = [
        point("plain", 1, 50.0), point("fast", 1, 100.0, 40),
        point("fast", 8, 180.0, 0), point("plain", 8, 200.0, failed=1, failure="closed the connection"),
    ]  # fmt: skip
    return {
        "kind": "server-load", "version": 1, "lanes": {"plain": "vllm 0.32.0", "fast": "vllm 0.32.0"},
        "missing": {"gone": "cannot be reached"}, "concurrency": [1, 8], "seconds": 5.0, "rate": None, "tokens": 16,
        "temperature": 0.0, "points": points, "predicted": [{"lane": "fast", "concurrency": 1, "ratio": 1.8}],
        "stops": [{"lane": "fast", "concurrency": 8, "nothing": True}],
        "predicted_with": "pair", "over": True, "created": "2026-11-23T00:00:00+00:00",
    } | own  # fmt: skip


def test_the_file_that_the_engine_writes_is_read() -> None:
    from draftscope.servers.curve import LoadCurve

    written = LoadCurve(**document()).model_dump_json()
    assert told("readCurve", written) == json.loads(written)


WRONG: list[Json] = [
    {"kind": "race"}, {"version": 2}, {"lanes": {}}, {"lanes": []}, {"points": 3}, {"missing": None},
    {"points": [point("other", 1, 5.0)]}, {"points": [point("fast", 1, 5.0, latency_p99="x")]},
    {"predicted": [{"lane": "fast", "concurrency": 1}]}, {"stops": [{"lane": "other", "concurrency": 8}]}, {"stops": 3},
    {"seconds": None}, {"created": 5},
]  # fmt: skip


def test_any_other_file_is_refused() -> None:
    texts = [json.dumps(document(**wrong)) for wrong in WRONG] + ["<html>", "3", "null", "[]"]
    assert call(["doors/servers/load/load-curve.js"], [("readCurve", [text]) for text in texts]) == [None] * len(texts)


def test_speed_is_divided_by_the_first_servers_at_the_same_concurrency() -> None:
    assert told("speedupsOf", document()) == [
        {"name": "fast", "lane": "fast", "points": [{"x": 1, "y": 2}, {"x": 8, "y": 0.9}]},
        {"name": "fast, predicted", "lane": "fast", "points": [{"x": 1, "y": 1.8}], "predicted": True},
    ]


def test_where_a_server_stops_drafting_is_found_and_said_with_what_failed() -> None:
    assert told("stopsOf", document()) == [{"lane": "fast", "from": 8, "nothing": True}]
    notes = told("notesOf", document())
    assert [lane for lane, _ in notes] == ["gone", "fast", "plain"]
    assert "drafts nothing from 8 requests at once on" in notes[1][1] and "1 failed at 8" in notes[2][1]
    almost = document(stops=[{"lane": "fast", "concurrency": 8, "nothing": False}])
    assert told("notesOf", almost)[1][1] == "drafts almost nothing from 8 requests at once on."
    assert told("stopsOf", {name: value for name, value in document().items() if name != "stops"}) == []


def test_seconds_are_milliseconds_and_what_is_not_known_is_left_out() -> None:
    series = told("seriesOf", document(), "latency")
    points = [{"x": 1, "y": 2000}, {"x": 8, "y": 2000}]
    assert series[0] == {"name": "plain", "lane": "plain", "points": points}
    assert all(not each["points"] for each in told("seriesOf", document(), "ttft"))
