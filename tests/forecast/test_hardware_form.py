"""On other hardware: the fields of the Decide door become a forecast, and no visitor reads a file of the server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from draftscope.base.errors import DraftscopeError
from draftscope.forecast.economics import LOADS, scenario
from draftscope.forecast.forecast import forecast
from draftscope_app.page.advice.hardware import VALIDATED, answer, fields, read, show
from draftscope_app.reports.forecast_answer import draw_loads, verdict

ASKED = {
    "model": "Llama-3-70B", "drafter": "eagle3", "card": "H100 SXM", "engine": "vLLM", "tp": 0, "concurrency": 32,
    "context": 1024, "answer": 0, "tau": 0, "price": 2.0, "traffic": 0,
}  # fmt: skip


def test_fields_become_the_forecast_of_the_command() -> None:
    given, price = read(ASKED)
    assert forecast(given) == forecast(scenario("Llama-3-70B", concurrency=32))
    text = answer(given, forecast(given), price)
    assert "<b>It should pay: 1.94 [" in text and "A million tokens cost" in text and "4 x H100 SXM with vLLM" in text


@pytest.mark.parametrize(
    ("changed", "words"),
    [({"model": "/etc/passwd"}, "choose a model"), ({"card": "X9"}, "choose a card"), ({"tau": 9}, "from 1 to")],
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


def test_the_curve_has_the_load_that_was_asked_for_between_its_band() -> None:
    figure = draw_loads(read(ASKED | {"concurrency": 48})[0])
    band, line = figure.data
    assert sorted({*LOADS, 48}) == list(line.x)
    high, low = band.y[: len(line.x)], band.y[len(line.x) :][::-1]
    assert all(a < b < c for a, b, c in zip(low, line.y, high, strict=True))


def test_the_form_says_how_good_its_forecasts_were() -> None:
    """The figures that the findings have; and its fields are those that are read."""
    root = Path(__file__).resolve().parents[2]
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
    html, plot = show(ASKED | {"tau": 9})
    assert 'role="alert"' in html and not plot["visible"]
