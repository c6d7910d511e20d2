"""Decide begins with it: would speculation pay for this model, on this card, with so many at once? Loads no model."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from draftscope.base.errors import DraftscopeError, quoted
from draftscope.forecast.cluster.sizing import USUAL_ANSWER, cards_needed
from draftscope.forecast.forecast import Forecast, Scenario, ask, dollars_per_million, forecast
from draftscope.forecast.hardware_tables import read_table
from draftscope_app.doors.decide.forecast import answer
from draftscope_app.doors.decide.forecast.traffic import traffic_sentences
from draftscope_app.page.layout import ServerFunction
from draftscope_app.page.task import TaskPage

LISTS = {"model": "models", "drafter": "drafters", "card": "cards", "engine": "engines"}  # field -> table of its names
RANGES: Mapping[str, tuple[str, float, float]] = {  # field -> its words, the least and the most
    "concurrency": ("requests at once", 1, 4096),
    "tp": ("cards", 0, 64),
    "context": ("tokens of context", 1, 10_000_000),
    "answer": ("tokens of an answer", 0, 10_000_000),
    "tau": ("tokens a round", 0, 64),
    "price": ("price of a card", 0, 1e6),
    "traffic": ("requests a second", 0, 1e6),
}
BROKEN = ("tau", "price", "traffic")  # numbers that need not be whole
USUAL: Mapping[str, Any] = {
    "model": "Llama-3-70B", "drafter": "eagle3", "card": "H100 SXM", "engine": "vLLM", "concurrency": 32, "tp": 0,
    "context": 1024, "answer": 0, "tau": 0, "price": 0, "traffic": 0, "axis": answer.LOAD,
}  # fmt: skip
UNKNOWN = "Your prompts. Measure them below with a model that runs here, or race two servers."
VALIDATED = (
    "Compared with the 533 of 681 published speedups that it can predict, its median error is 10.9% where the tokens a "
    "round are known and 20.2% where they are not (2026-11-27, on the half of the sources that no constant was fitted "
    "to). Of ten speedups, nine should be within their interval; 98% and 90% were. It was not checked on a card."
)


class Page(TaskPage):
    @classmethod
    def hand_over(cls) -> dict[str, Any]:
        """The lists, and the usual question with its answer, which therefore stands there at once."""
        return {"forecast": offered()}

    def functions(self) -> list[ServerFunction]:
        async def forecasts(message: Any) -> dict[str, Any]:
            return await asyncio.to_thread(answered, message)

        return [forecasts]


@cache
def offered() -> dict[str, Any]:
    """What may be asked, and what is asked first."""
    lists = {field: [row["name"] for row in read_table(table)] for field, table in LISTS.items()}
    return {
        "lists": lists | {"axis": list(answer.AXES)},
        "ranges": {field: [least, most] for field, (_, least, most) in RANGES.items()},
        "usual": dict(USUAL),
        "answer": answered(USUAL),
        "validated": VALIDATED,
    }


def answered(message: Any) -> dict[str, Any]:
    """The answer to what a page asks, or the one sentence why there is none. Anybody can send any JSON."""
    try:
        values = {**USUAL, **message} if isinstance(message, Mapping) else dict(USUAL)
        scenario, price = read(values)
        lines = _cards_for(scenario, values["traffic"]) if values["traffic"] else []
    except DraftscopeError as error:
        return {"refused": str(error)}
    result, axis = forecast(scenario), values["axis"]
    field, usual = answer.AXES[axis]
    return {
        "headline": answer.headline(result),
        "interval": answer.interval(result),
        "facts": facts(scenario, result, price, lines),
        "terms": terms(scenario, result),
        "points": answer.points(scenario, axis),
        "usual": list(usual),
        "axis": axis,
        "at": getattr(scenario, field),
        "stops": result.stops_at.middle if result.stops_at and axis == answer.LOAD else None,
        "cards": scenario.machine.cards,
    }


def read(values: Mapping[str, Any]) -> tuple[Scenario, float]:
    """The scenario and the price of a card for an hour; raises `DraftscopeError` for what cannot be asked.

    Names are those of the tables, so that no visitor reads a file of the server.
    """
    for name, table in LISTS.items():
        if values[name] not in [row["name"] for row in read_table(table)]:
            raise DraftscopeError(f"{_shown(values[name])} is not in the list; choose a {name} from it.")
    if values["axis"] not in list(answer.AXES):
        raise DraftscopeError(f"{_shown(values['axis'])} is not in the list; choose an axis from it.")
    numbers = {name: _number(name, values[name]) for name in RANGES}
    scenario = ask(
        values["model"], values["drafter"], values["card"], engine=values["engine"], tp=int(numbers["tp"]) or None,
        concurrency=int(numbers["concurrency"]), context=int(numbers["context"]), answer=int(numbers["answer"]),
        tau=numbers["tau"] or None,
    )  # fmt: skip
    return scenario, numbers["price"]


def _number(name: str, value: Any) -> float:
    """Within its range; an empty field is as small as it may be."""
    words, least, most = RANGES[name]
    if value is None:
        return least
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not least <= value <= most or (name not in BROKEN and value != int(value)):
        whole = "a number" if name in BROKEN else "a whole number"
        raise DraftscopeError(f"{words}: {_shown(value)} is not {whole} from {least:,g} to {most:,.0f}.")
    return float(value)


def _shown(value: Any) -> str:
    return f"'{quoted(str(value))}'"


def _cards_for(scenario: Scenario, per_second: float) -> list[str]:
    """The cards for a traffic of these requests."""
    scenario = replace(scenario, answer=scenario.answer or USUAL_ANSWER)
    return traffic_sentences(scenario, cards_needed(scenario, per_second))


def facts(scenario: Scenario, result: Forecast, price: float, more: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Where the answer ends, what a million tokens cost, `more` sentences, what it rests on; a word before each."""
    _, gain, _, _, stops, known = answer.sentences(scenario, result)
    said = [("Where it ends", stops), ("A round", gain)]
    if price:
        plain, drafted = (
            dollars_per_million(rate, scenario.machine.cards, price)
            for rate in (result.plain_tokens_s, result.tokens_s.middle)
        )
        kind = scenario.drafting.kind.name
        said.append(("Price", f"A million tokens cost {plain:,.2f} plain and {drafted:,.2f} with {kind}."))
    if more:
        said.append(("Your traffic", " ".join(more)))
    return [*said, ("It rests on", known), ("Not known", UNKNOWN)]


def terms(scenario: Scenario, result: Forecast) -> list[tuple[str, str]]:
    """What was asked, and the terms of the sum."""
    question, _, times, rates, _, _ = answer.sentences(scenario, result)
    return [("Asked", question), ("Times", times), ("Tokens", rates)]
