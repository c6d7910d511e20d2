"""On other hardware: the fields of the Decide door become a forecast, and no visitor reads a file of the server."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from draftscope.base.errors import DraftscopeError
from draftscope.forecast.economics import ANSWERS, CONTEXTS, LOADS, scenario
from draftscope.forecast.forecast import forecast, speedup_of
from draftscope_app.doors.decide.forecast.answer import AXES, LOAD, draw_curve, verdict
from draftscope_app.doors.decide.forecast.page import VALIDATED, answer, fields, read, show

ASKED = {
    "model": "Llama-3-70B", "drafter": "eagle3", "card": "H100 SXM", "engine": "vLLM", "tp": 0, "concurrency": 32,
    "context": 1024, "answer": 0, "tau": 0, "price": 2.0, "traffic": 0,
    "axis": LOAD,
}  # fmt: skip


def test_fields_become_the_forecast_of_the_command() -> None:
    given, price = read(ASKED)
    assert forecast(given) == forecast(scenario("Llama-3-70B", concurrency=32))
    text = answer(given, forecast(given), price)
    assert "<b>It should pay: 1.94 [" in text and "A million tokens cost" in text and "4 x H100 SXM with vLLM" in text
    assert "tokens (tau, estimated from 56 published rows of eagle3 on chat)" in text and "(tau)" in answer(
        replace(given, tau=2.0), forecast(given), price
    )


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"axis": "x"}, "choose an axis"),
        ({"model": "/etc/passwd"}, "choose a model"),
        ({"card": "X9"}, "choose a card"),
        ({"tau": 9}, "from 1 to"),
    ],
)
def test_what_is_in_no_list_is_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(DraftscopeError, match=words):
        read(ASKED | changed)


def test_empty_numbers_are_the_usual_ones() -> None:
    empty = dict.fromkeys(("tp", "concurrency", "context", "answer", "tau", "price", "traffic"))
    given, price = read(ASKED | empty)
    assert (given.concurrency, given.context, given.answer, given.tau, price) == (1, 1, 0, None, 0)


def test_the_verdict_is_as_wide_as_the_interval() -> None:
    given = {model: read(ASKED | {"model": model, "concurrency": 1})[0] for model in ("Llama-3-70B", "Llama-68M")}
    words = {model: verdict(forecast(one)) for model, one in given.items()}
    assert words["Llama-3-70B"].startswith("It should pay") and words["Llama-68M"].startswith("It should not pay")
    assert verdict(forecast(read(ASKED | {"concurrency": 128})[0])).startswith("Measure first")


@pytest.mark.parametrize(
    ("axis", "changed", "usual"),
    [(LOAD, {"concurrency": 48}, LOADS), ("tokens of context", {"context": 2000}, CONTEXTS),
     ("tokens of an answer", {"answer": 48}, ANSWERS), ("tokens of an answer", {"answer": 0}, ANSWERS)],
)  # fmt: skip
def test_the_curve_has_the_value_that_was_asked_for_between_its_band(
    axis: str, changed: dict[str, int], usual: tuple[int, ...]
) -> None:
    given = read(ASKED | changed)[0]
    band, line = draw_curve(given, axis).data
    (asked,), (field, _) = changed.values(), AXES[axis]
    assert sorted({*usual, asked} - {0}) == list(line.x)
    high, low = band.y[: len(line.x)], band.y[len(line.x) :][::-1]
    for x, ends in zip(line.x, zip(low, line.y, high, strict=True), strict=True):
        assert list(ends) == sorted(ends) and (ends[0] < ends[2] or (axis, x) == ("tokens of an answer", 1))
    for x, y in zip(line.x, line.y, strict=True):
        assert y == speedup_of(replace(given, **{field: x})).middle


def test_an_end_beyond_what_was_looked_at_is_said_to_be_there() -> None:
    stop = forecast(scenario("Llama-3-70B")).stops_at
    assert stop is not None and str(stop) == "215 [76, above 4,096]"


def test_the_form_says_how_good_its_forecasts_were() -> None:
    """The figures that the findings have; and its fields are those that are read."""
    root = Path(__file__).resolve().parents[4]
    findings = (root / "assets" / "results" / "FINDINGS.md").read_text(encoding="utf-8")
    section = findings.split("## A forecast held", 1)[1].split("\n## ", 1)[0]
    assert all(figure in section for figure in re.findall(r"[\d.]+%|\d{4}-\d\d-\d\d|681", VALIDATED))
    assert set(fields()) == set(ASKED)
    html, plot = show(ASKED)
    assert "It should pay" in html and plot["visible"]
    html, plot = show(ASKED | {"model": "Qwen3-8B", "answer": 64, "traffic": 2.0})
    assert "Without speculation: 1 card (1 server)" in html and "With eagle3: 1 card" in html and "Simulated" in html
    html, plot = show(ASKED | {"traffic": 1e6})
    assert 'role="alert"' in html and "a part of the traffic" in html
    for wrong in ({"tau": 9}, {"model": "none"}, {"traffic": 1e6}):
        assert show(ASKED | wrong)[0].count(".</") == 1, wrong  # one period, none twice
    html, plot = show(ASKED | {"tau": 9})
    assert 'role="alert"' in html and not plot["visible"]
