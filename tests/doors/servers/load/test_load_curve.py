"""A load as one document: point by point, with a prediction where costs are known, and stopped when asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from draftscope.base.costs import Calibration, Drafting, Machine, MeasuredFor, Verify
from draftscope.base.progress import Progress
from draftscope.base.steps import Cancelled, Steps, last, said
from draftscope.servers.adapter import Counted, Request
from draftscope.servers.background import in_background
from draftscope.servers.curve import LoadCurve, drafter_here, empty_curve, predicted_ratio, stops, stream_curve
from draftscope.servers.field import Field
from draftscope.servers.lanes import connect
from draftscope.servers.load_test import LoadPlan, LoadPoint, load
from draftscope.servers.server_race import RacePrompt
from draftscope.servers.wire import WireLimits
from tests.doors.servers.stubs import Habits, Starts, stub

PAIR = MeasuredFor(
    target="target", target_hash="", draft="draft", draft_hash="", emulates="", forward="", device="cpu",
    dtype="bfloat16", threads=2, torch="", transformers="", draftscope="",
)  # fmt: skip
COSTS = Calibration(
    measured_for=PAIR, created="", context=64,
    verify=[
        Verify(width=width, batch=batch, context=64, ms=10.0 * batch * (1.0 + 0.05 * (width - 1)))
        for width in (1, 5) for batch in (1, 4)
    ],
    drafting={
        "plain": [Drafting(batch=1, step=0.0, overhead=0.0, accept_step=0.0)],
        "draft": [Drafting(batch=1, step=0.5, overhead=0.0, accept_step=0.0)],
        "ngram": [Drafting(batch=1, step=0.0, overhead=0.0, accept_step=0.0)],
    },
    machine=Machine(copy_gb_s=1.0, matmul_gflop_s=1.0), target_bytes=1,
)  # fmt: skip
COUNTED = Counted(rounds=10, drafted=40, accepted=20)
POINT = LoadPoint("fast", 1, 3, 0, 100, 100.0, 1.0, 1.0, 1.0, 0.1, 0.1, 0.01, COUNTED, None)
PROMPTS = [RacePrompt("a", (1, 2))]
REQUEST = Request(ids=(1,), max_tokens=8)


def test_a_prediction_is_tau_over_the_cost_of_such_rounds() -> None:
    """Ten rounds of four drafted tokens, two accepted: 3 tokens for 4 draft steps and a forward of five rows."""
    assert predicted_ratio(POINT, COSTS, "draft") == pytest.approx(3 / ((4 * 0.5 + 12) / 10))
    four = predicted_ratio(replace(POINT, concurrency=4), COSTS, "draft")
    assert four == pytest.approx(3 / ((4 * 0.5 + 48) / 40))


@pytest.mark.parametrize(
    "point",
    [
        replace(POINT, counted=None),
        replace(POINT, counted=Counted(drafted=40, accepted=20)),  # says nothing of rounds
        replace(POINT, counted=Counted(rounds=0, drafted=0, accepted=0)),
        replace(POINT, concurrency=8),  # more together than was measured
    ],
)
def test_nothing_is_predicted_of_what_is_not_known(point: LoadPoint) -> None:
    assert predicted_ratio(point, COSTS, "draft") is None


def test_the_costs_are_those_of_the_draft_model_if_there_is_one() -> None:
    assert drafter_here(COSTS) == "draft"
    assert drafter_here(COSTS.model_copy(update={"drafting": {"plain": [], "ngram": []}})) == "ngram"
    assert drafter_here(COSTS.model_copy(update={"drafting": {"plain": []}})) is None


def test_the_document_grows_point_by_point(starts: Starts) -> None:
    lanes = [starts("plain", Habits()), starts("fast", Habits(burst=4))]
    plan = LoadPlan(PROMPTS, REQUEST, (1, 2), 0.1)
    start = empty_curve(lanes, {"gone": "cannot be reached"}, plan)
    told = list(said(stream_curve(start, in_background(load(lanes, plan)), (COSTS, "draft"))))
    assert [len(each.points) for each in told] == [0, 1, 2, 3, 4]
    assert [each.over for each in told] == [False] * 4 + [True]
    last = LoadCurve.model_validate_json(told[-1].model_dump_json())
    assert last.lanes == {"plain": "vLLM 0.32.0", "fast": "vLLM 0.32.0"} and "gone" in last.missing
    assert [(each.lane, each.concurrency) for each in last.predicted] == [("fast", 1), ("fast", 2)]
    assert "draft as draft model" in last.predicted_with


def test_the_point_from_which_a_server_stops_drafting_is_found_by_what_it_counts() -> None:
    """Over the real route: from some concurrency on its counters stay as they are."""
    last = stopping()
    assert [(each.lane, each.concurrency, each.nothing) for each in last.stops] == [("fast", 4, True)]
    drafted = {each["concurrency"]: each["counted"]["drafted"] for each in last.points if each["lane"] == "fast"}
    assert drafted[1] and drafted[2] and not drafted[4]
    assert all(each["counted"] is None for each in last.points if each["lane"] == "plain")


def stopping() -> LoadCurve:
    """A load of a plain stub and of one that drafts up to two requests at once."""
    plain, fast = Habits(pause=0.004), Habits(burst=4, pause=0.004)
    plan = LoadPlan(PROMPTS, REQUEST, (1, 2, 4), 0.2)
    with ExitStack() as opened:
        urls = {name: opened.enter_context(stub(each)) for name, each in (("plain", plain), ("fast", fast))}
        lanes, _ = connect(urls, {}, WireLimits(), opened.enter_context)

        def points() -> Iterator[LoadPoint]:
            for number, point in enumerate(said(load(lanes, plan)), 1):
                fast.drafting = number < len(lanes) * 2  # the points of 1 and 2 requests at once
                yield point

        *_, last = said(stream_curve(empty_curve(lanes, {}, plan), points(), None))
    return last


@pytest.mark.parametrize(
    ("drafted", "found"),
    [
        ([40, 40, 0, 0], [(4, True)]),
        ([40, 40, 3, 0], [(4, False)]),
        ([40, 0, 40, 0], [(8, True)]),  # what drafts again has not stopped
        ([0, 40, 30, 20], []),
        ([0, 0, 0, 0], []),
        ([None, None, None, None], []),
    ],
)
def test_a_server_has_stopped_where_it_drafted_before_and_does_not_again(
    drafted: list[int | None], found: list[tuple[int, bool]]
) -> None:
    points = [
        replace(POINT, concurrency=1 << i, counted=None if n is None else Counted(rounds=1, drafted=n, accepted=0))
        for i, n in enumerate(drafted)
    ]
    assert [(each.concurrency, each.nothing) for each in stops(points[::-1])] == found


def test_a_server_drafts_as_much_for_a_token_however_long_a_point_lasted() -> None:
    """At one rate, a point of 20 seconds counts twenty times the drafts of one of a second: it has not stopped."""
    points = [
        replace(POINT, concurrency=n, tokens=100 * seconds, counted=Counted(drafted=60 * seconds))
        for n, seconds in ((1, 20), (2, 1))
    ]
    assert [each.drafted_per_token for each in points] == [0.6, 0.6] and stops(points) == []


def test_a_load_that_is_stopped_ends_within_a_point(starts: Starts) -> None:
    """The point that was cut short is left out."""
    lane = starts("slow", Habits(pause=0.05))
    plan = LoadPlan(PROMPTS, REQUEST, (1,), 3600.0)
    steps = stream_curve(empty_curve([lane], {}, plan), in_background(load([lane], plan)), None)
    told = list(said(islice(steps, 4)))
    steps.close()  # type: ignore[attr-defined]
    assert len(told) == 1 and not told[0].over and not told[0].points


def test_a_load_that_is_stopped_while_costs_are_measured_asks_no_server() -> None:
    """And it says that they are: the page said "starting" all the while."""
    measuring = Progress("what a round costs here", 0.4, 15.0)

    class Measured:
        def calibrated(self) -> Steps[Progress, Any]:
            yield measuring
            return COSTS

    engine: Any = Measured()
    assert last(Field([], {})._costs()) is None
    assert last(Field([], {}, engine)._costs()) == (COSTS, "draft")
    steps = Field([], {}, engine).load(LoadPlan(PROMPTS, REQUEST, (1, 2)))
    start = next(steps)
    assert isinstance(start, LoadCurve) and start.concurrency == [1, 2] and next(steps) is measuring
    with pytest.raises(Cancelled):
        steps.throw(Cancelled())
