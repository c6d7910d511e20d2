"""The forecast in the browser is Python's, over one table of cases."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from draftscope.base.errors import DraftscopeError
from draftscope.forecast.acceptance_priors import Band
from draftscope.forecast.forecast import Stops, ask, forecast
from draftscope.forecast.hardware_tables import read_table
from draftscope_app.lab.site.forecast_tables import tables
from tests.support.node import call

FORMULA = "lab/site/forecast/forecast-formula.js"
NUMBERS = ("tp", "concurrency", "context", "answer", "tau")
FIELDS = {  # Python's field -> JavaScript's
    "speedup": "speedup", "tau": "tau", "plain_ms": "plainMs", "drafting_ms": "draftingMs", "verify_ms": "verifyMs",
    "round_ms": "roundMs", "plain_tokens_s": "plainTokens", "tokens_s": "tokens", "stops_at": "stopsAt", "fits": "fits",
}  # fmt: skip


def cases() -> list[dict[str, Any]]:
    with Path(__file__).with_name("forecast_cases.csv").open(newline="") as file:
        return [{name: float(v) if name in NUMBERS else v for name, v in row.items()} for row in csv.DictReader(file)]


def plain(value: Any) -> Any:
    """A band or a limit as JSON has it."""
    if isinstance(value, Band | Stops):
        return {"middle": value.middle, "low": value.low, "high": value.high}
    return value


def expected(case: dict[str, Any]) -> dict[str, Any] | None:
    """Python's forecast; None where it is refused."""
    try:
        scenario = ask(
            case["model"], case["drafter"], case["card"], engine=case["engine"], text=case["text"],
            tp=int(case["tp"]) or None, concurrency=int(case["concurrency"]), context=case["context"],
            answer=int(case["answer"]), tau=case["tau"] or None,
        )  # fmt: skip
    except DraftscopeError:
        return None
    result = forecast(scenario)
    return {name: plain(getattr(result, field)) for field, name in FIELDS.items()} | {"known": result.known}


def test_the_table_has_everything_and_enough_that_can_run() -> None:
    rows = cases()
    for column, table in (("model", "models"), ("drafter", "drafters"), ("card", "cards"), ("engine", "engines")):
        assert {row[column] for row in rows} == {row["name"] for row in read_table(table)}, column
    refused = [expected(row) is None for row in rows]
    assert 10 <= sum(refused) <= len(rows) / 4


def test_the_formula_in_the_browser_is_pythons() -> None:
    given, rows = json.loads(json.dumps(tables())), cases()
    results = call([FORMULA], [("forecast", [given, row]) for row in rows])
    for row, result in zip(rows, results, strict=True):
        wanted = expected(row)
        assert (wanted is None) is ("refused" in result), (row, result)
        for name in FIELDS.values() if wanted else ():
            assert_near(result[name], wanted[name], (row, name))  # type: ignore[index]
        if wanted and result["held"]:
            assert result["held"] == wanted["known"]


def assert_near(got: Any, wanted: Any, where: Any) -> None:
    if isinstance(wanted, dict):
        for end in wanted:
            assert_near(got[end], wanted[end], where)
    elif wanted is None:
        assert got is None, where
    else:
        assert got == pytest.approx(wanted, rel=1e-9), where


def test_the_curve_is_the_forecast_at_other_loads() -> None:
    given, row = json.loads(json.dumps(tables())), cases()[0]
    loads = (1.0, 32.0)
    bands = call([FORMULA], [("speedupAt", [given, row, {"concurrency": load}]) for load in loads])
    for load, band in zip(loads, bands, strict=True):
        wanted = expected(row | {"concurrency": load})
        assert wanted is not None
        assert_near(band, wanted["speedup"], load)
