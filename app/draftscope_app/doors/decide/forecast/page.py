"""Decide, on other hardware: the forecast for a model, a drafter and a card that are not at hand. Loads no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import gradio as gr

from draftscope.base.errors import DraftscopeError
from draftscope.forecast.cluster.sizing import USUAL_ANSWER, cards_needed
from draftscope.forecast.forecast import Forecast, Scenario, ask, dollars_per_million, forecast
from draftscope.forecast.hardware_tables import read_table
from draftscope_app.doors.decide.forecast.answer import AXES, LOAD, draw_curve, sentences, verdict
from draftscope_app.doors.decide.forecast.traffic import traffic_sentences
from draftscope_app.doors.decide.page import EVIDENCE
from draftscope_app.page import notes
from draftscope_app.page.shared import PRIVATE
from draftscope_app.page.task import Core, TaskPage

MAX_CARDS, MAX_TOKENS, MAX_REQUESTS = 64, 10_000_000, 4096
VALIDATED = (
    "Compared with the 533 of 681 published speedups that it can predict, its median error is 10.9% where the tokens a "
    "round are known and 20.2% where they are not (2026-11-27, on the half of the sources that no constant was fitted "
    "to). Of ten speedups, nine should be within their interval; 98% and 90% were. It was not checked on a card."
)


@dataclass(frozen=True)
class HardwareForm:
    """The card, its fields by the names that `read` takes, and the places of the answer."""

    card: gr.Accordion
    fields: dict[str, gr.components.Component]
    answer: gr.HTML
    plot: gr.Plot

    def attach(self) -> None:
        """Forecasts when the card is opened, and at every change of a field."""
        outputs: list[Any] = [self.answer, self.plot]
        for change in (self.card.expand, *(field.change for field in self.fields.values())):  # type: ignore[attr-defined]
            change(self._show, list(self.fields.values()), outputs, trigger_mode="always_last", **PRIVATE)

    def _show(self, *values: Any) -> list[Any]:
        return show(dict(zip(self.fields, values, strict=True)))


class Page(TaskPage):
    def lay_out(self, area: str) -> None:
        if area == EVIDENCE:
            self.form = hardware_form()

    def attach(self, _: Core) -> None:
        self.form.attach()


def show(values: dict[str, Any]) -> list[Any]:
    """The answer and its curve, or why there is none."""
    try:
        scenario, price = read(values)
        lines = _cards_for(scenario, values["traffic"]) if values["traffic"] else []
    except DraftscopeError as error:
        return [notes.refused(str(error)), gr.update(visible=False)]
    html = answer(scenario, forecast(scenario), price, lines)
    return [html, gr.update(value=draw_curve(scenario, values["axis"]), visible=True)]


def hardware_form() -> HardwareForm:
    """A drawer among the evidence."""
    with gr.Accordion(
        "On other hardware: a forecast", open=False, elem_id="ds-hardware", elem_classes=["ds-card"]
    ) as card:
        with gr.Row():
            widgets = fields()
        html = notes.html(name="ds-hardware-answer")
        plot = gr.Plot(show_label=False, visible=False)
        notes.html(notes.muted(VALIDATED))
    return HardwareForm(card, widgets, html, plot)


def fields() -> dict[str, gr.components.Component]:
    """By name, with what they say at first."""

    def names(table: str) -> list[str]:
        return [row["name"] for row in read_table(table)]

    def number(label: str, value: float, most: float, precision: int = 0, least: float = 0) -> gr.Number:
        return gr.Number(value, label=label, minimum=least, maximum=most, precision=precision)

    return {
        "model": gr.Dropdown(names("models"), value="Llama-3-70B", label="Model"),
        "drafter": gr.Dropdown(names("drafters"), value="eagle3", label="Drafter"),
        "card": gr.Dropdown(names("cards"), value="H100 SXM", label="Card"),
        "engine": gr.Dropdown(names("engines"), value="vLLM", label="Server"),
        "tp": number("Cards (0: as many as it needs)", 0, MAX_CARDS),
        "concurrency": number("Concurrent requests", 1, MAX_REQUESTS, least=1),
        "context": number("Tokens of context", 1024, MAX_TOKENS, least=1),
        "answer": number("Tokens of an answer (0: decoding only)", 0, MAX_TOKENS),
        "tau": number("Tokens a round, tau (0: estimated)", 0, 64, precision=2),
        "price": number("Price of a card, per hour (0: none)", 0, 1e6, precision=2),
        "traffic": number("Requests a second (0: none)", 0, 1e6, precision=2),
        "axis": gr.Dropdown(list(AXES), value=LOAD, label="Curve along"),
    }  # fmt: skip


def read(values: dict[str, Any]) -> tuple[Scenario, float]:
    """The scenario and the price of a card for an hour; raises `DraftscopeError` for what cannot be asked.

    Names are those of the tables, so that no visitor reads a file of the server.
    """
    for name, table in (("model", "models"), ("drafter", "drafters"), ("card", "cards"), ("engine", "engines")):
        if values[name] not in {row["name"] for row in read_table(table)}:
            raise DraftscopeError(f"'{values[name]}' is not in the list; choose a {name} from it.")
    if values["axis"] not in AXES:
        raise DraftscopeError(f"'{values['axis']}' is not in the list; choose an axis from it.")
    numbers = {name: values[name] or 0 for name in ("tp", "concurrency", "context", "answer", "tau", "price")}
    scenario = ask(
        values["model"], values["drafter"], values["card"], engine=values["engine"], tp=int(numbers["tp"]) or None,
        concurrency=max(1, int(numbers["concurrency"])), context=max(1, numbers["context"]),
        answer=int(numbers["answer"]), tau=numbers["tau"] or None,
    )  # fmt: skip
    return scenario, numbers["price"]


def _cards_for(scenario: Scenario, per_second: float) -> list[str]:
    """The cards for a traffic of these requests."""
    scenario = replace(scenario, answer=scenario.answer or USUAL_ANSWER)
    return traffic_sentences(scenario, cards_needed(scenario, per_second))


def answer(scenario: Scenario, result: Forecast, price: float, more: Sequence[str] = ()) -> str:
    """The verdict, its reasons, what a million tokens cost, and `more` lines, as HTML."""
    lines = sentences(scenario, result)
    if price:
        plain, drafted = (
            dollars_per_million(rate, scenario.machine.cards, price)
            for rate in (result.plain_tokens_s, result.tokens_s.middle)
        )
        lines.append(f"A million tokens cost {plain:,.2f} plain and {drafted:,.2f} with {scenario.drafting.kind.name}.")
    items = "".join(f"<li>{escape(line)}</li>" for line in (*lines, *more))
    return f'<p role="status"><b>{escape(verdict(result))}</b> A forecast, not run.</p><ul>{items}</ul>'
