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
from draftscope_app.doors.decide.forecast.answer import AXES, LOAD, headline, interval, points
from draftscope_app.doors.decide.forecast.page import RANGES, USUAL, VALIDATED, answered, offered, read

ASKED = {
    "model": "Llama-3-70B", "drafter": "eagle3", "card": "H100 SXM", "engine": "vLLM", "tp": 0, "concurrency": 32,
    "context": 1024, "answer": 0, "tau": 0, "price": 2.0, "traffic": 0,
    "axis": LOAD,
}  # fmt: skip


def told(**changed: Any) -> str:
    """Everything that an answer says."""
    return str(answered(ASKED | changed))


def test_fields_become_the_forecast_of_the_command() -> None:
    given, _ = read(ASKED)
    assert forecast(given) == forecast(scenario("Llama-3-70B", concurrency=32))
    assert answered(ASKED)["headline"] == "Yes: about 1.9 times as fast"
    text = told()
    assert "A million tokens cost" in text and "4 x H100 SXM with vLLM" in text
    assert "tokens (tau, estimated from 56 published rows of eagle3 on chat)" in text and "(tau)" in told(tau=2.0)


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


def test_the_answer_is_as_sure_as_the_interval() -> None:
    one = {
        model: forecast(read(ASKED | {"model": model, "concurrency": 1})[0]) for model in ("Llama-3-70B", "Llama-68M")
    }
    words = {model: headline(each) for model, each in one.items()}
    assert words["Llama-3-70B"].startswith("Yes: ") and words["Llama-68M"].startswith("No: ")
    assert not any("measure before" in interval(each) for each in one.values())
    unsure = forecast(read(ASKED | {"concurrency": 128})[0])
    assert headline(unsure).startswith("Perhaps: ") and interval(unsure).endswith("; measure before you decide")


@pytest.mark.parametrize(
    ("axis", "changed", "usual"),
    [(LOAD, {"concurrency": 48}, LOADS), ("tokens of context", {"context": 2000}, CONTEXTS),
     ("tokens of an answer", {"answer": 48}, ANSWERS), ("tokens of an answer", {"answer": 0}, ANSWERS)],
)  # fmt: skip
def test_the_curve_has_the_value_that_was_asked_for_between_its_band(
    axis: str, changed: dict[str, int], usual: tuple[int, ...]
) -> None:
    given = read(ASKED | changed)[0]
    curve = points(given, axis)
    (asked,), (field, _) = changed.values(), AXES[axis]
    assert sorted({*usual, asked} - {0}) == [value for value, *_ in curve]
    for value, *ends in curve:
        assert ends == sorted(ends) and (ends[0] < ends[2] or (axis, value) == ("tokens of an answer", 1))
        assert ends[1] == speedup_of(replace(given, **{field: value})).middle


def test_an_end_beyond_what_was_looked_at_is_said_to_be_there() -> None:
    stop = forecast(scenario("Llama-3-70B")).stops_at
    assert stop is not None and str(stop) == "215 [76, above 4,096]"


def test_the_form_says_how_good_its_forecasts_were() -> None:
    """The figures that the findings have; and its fields are those that are read."""
    root = Path(__file__).resolve().parents[4]
    findings = (root / "assets" / "results" / "FINDINGS.md").read_text(encoding="utf-8")
    section = findings.split("## A forecast held", 1)[1].split("\n## ", 1)[0]
    assert all(figure in section for figure in re.findall(r"[\d.]+%|\d{4}-\d\d-\d\d|681", VALIDATED))
    assert set(USUAL) == set(ASKED) and offered()["answer"] == answered({})
    text = told(model="Qwen3-8B", answer=64, traffic=2.0)
    assert "Without speculation: 1 card (1 server)" in text and "With eagle3: 1 card" in text and "Simulated" in text


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"traffic": 1e6}, "a part of the traffic"), ({"tau": 9}, "from 1 to"), ({"model": "none"}, "not in the list"),
        ({"model": ["H100"]}, "not in the list"), ({"axis": {}}, "not in the list"),
        ({"concurrency": 0}, "requests at once: '0' is not a whole number from 1 to 4,096"),
        ({"concurrency": 1.5}, "not a whole number"), ({"context": float("nan")}, "tokens of context: 'nan'"),
        ({"price": True}, "price of a card: 'True'"), ({"tp": 10**30}, "is not a whole number from 0 to 64"),
        ({"answer": "x" * 9999}, "tokens of an answer"),
    ],
)  # fmt: skip
def test_what_anybody_may_send_is_refused_in_one_sentence(wrong: dict[str, Any], words: str) -> None:
    refused = answered(ASKED | wrong)["refused"]
    assert words in refused and refused.endswith(".") and "..." not in refused[-4:] and len(refused) < 500


def test_anything_else_than_a_question_is_the_usual_one() -> None:
    assert all(answered(sent) == answered({}) for sent in (None, [], "x", 3))
    assert set(RANGES) < set(USUAL)
