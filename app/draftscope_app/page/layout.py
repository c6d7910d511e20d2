"""What is on the page: the top row, the composer, the instrument, and hidden components that pass messages on to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from draftscope_app.engine.admission import refuse_long, text_of
from draftscope_app.page import notes
from draftscope_app.page.advice.form import AdviceForm, VerdictCard, estimate, verdict
from draftscope_app.page.advice.form import form as advice_form
from draftscope_app.page.advice.hardware import HardwareForm, hardware_form
from draftscope_app.page.claims.view import drawer as claims_drawer
from draftscope_app.page.controls import Controls
from draftscope_app.page.host import ServerFunction
from draftscope_app.page.panel import panel
from draftscope_app.page.runs import own_models
from draftscope_app.page.tasks.experiment import ExperimentForm, experiment_form

# What the instrument asks for; the answers come as deltas.
EVENTS = ("fork", "compare", "check", "set", "resume", "race", "audit", "loadtest")
DOORS = ("watch", "decide", "servers", "learn")  # addresses of the page (host/doors.js), each its cards
TITLE = (
    '<a class="ds-skip" href="#ds-instrument">Skip to the run</a><h1>Draftscope</h1><nav aria-label="Doors">'
    + "".join(f'<a href="?door={door}" data-door="{door}">{door.capitalize()}</a>' for door in DOORS)
    + "</nav>"
)
OPENS = '<button type="button" class="ds-opens" aria-expanded="false" aria-controls="{0}" data-opens="{0}">{1}</button>'
PILL = OPENS.format("ds-models", '<i aria-hidden="true"></i><span class="ds-loaded">no model yet</span>')
SHARE = OPENS.format("ds-share", "Share")
EVIDENCE = '<h2 class="ds-stage">Evidence</h2>'
ENGINE = '<p class="ds-engine" role="status"></p>'
RECEIVE = "Draftscope.receive(props.value); watch('value', () => Draftscope.receive(props.value));"
CONNECT = "Draftscope.connect({{ events: {events}, trigger, server }});"
SERVER_EVENTS = ("race", "audit", "loadtest")  # where there are servers to ask


@dataclass(frozen=True)
class Widgets:
    """What listeners are attached to."""

    controls: dict[str, gr.components.Component]  # by name, in the order of `controls.names`
    kinds: dict[str, gr.Button]  # kind of text -> the button that fills in a prompt
    examples: dict[str, gr.Button]  # name -> the button that sets the controls to it
    run: gr.Button
    stop: gr.Button
    step: gr.Button
    link: gr.Button
    save: gr.Button
    export: gr.Button
    load: gr.UploadButton
    theme: gr.Button
    instrument: gr.HTML  # its value is the latest delta of a run
    # Each sender to the instrument has its own component: two simultaneous updates of one would overwrite each other.
    messages: gr.HTML
    compared: gr.HTML
    checked: gr.HTML
    audited: gr.HTML
    loaded: gr.HTML
    drawer: gr.Accordion  # holds the plots
    plots: tuple[gr.Plot, gr.Plot, gr.Plot]
    advice: AdviceForm
    hardware: HardwareForm
    verdict: VerdictCard
    experiments: ExperimentForm
    models: own_models.Form | None

    @property
    def values(self) -> list[gr.components.Component]:
        return list(self.controls.values())

    def read(self, values: Mapping[Any, Any], max_text: int) -> Controls:
        """What a visitor has set, from Gradio's values by component. Most of it is validated later.

        Raises `DraftscopeError` for a prompt that is no text, and for any text of more than `max_text` characters.
        """
        given = {name: values[widget] for name, widget in self.controls.items()}
        refuse_long(given, max_text)
        given["prompt"] = text_of(given["prompt"] or "")
        return given


def lay_out(
    defaults: Controls,
    max_tokens: int,
    first: str,
    lets_load: bool,
    functions: list[ServerFunction],
    asks_servers: bool = False,
) -> Widgets:
    """All components, inside a `gr.Blocks`. `first` is the delta that the page opens with; the instrument may call
    the server's `functions`, and `asks_servers` of other programs."""
    top, models = _top(lets_load)
    with gr.Column(elem_id="ds-controls"):
        controls, buttons = panel(defaults, max_tokens)
    with gr.Column(elem_id="ds-main"):
        events = [event for event in EVENTS if asks_servers or event not in SERVER_EVENTS]
        instrument = _instrument(first, functions, events)
        messages, compared, checked, audited, loaded = (_receiver() for _ in range(5))
        with gr.Accordion("After the run: gaps, acceptance, lengths", open=False, elem_id="ds-after") as drawer:
            gaps = gr.Plot(show_label=False)
            with gr.Row():
                positions, lengths = gr.Plot(show_label=False), gr.Plot(show_label=False)
        # Gradio builds what an accordion holds when it is first opened, which this door does: see host/doors.js.
        with gr.Accordion("Decide", open=False, elem_id="ds-deciding"), gr.Row(elem_id="ds-decide"):
            with gr.Column(min_width=320):
                estimate()
                advice = advice_form()
            with gr.Column(min_width=320):
                card = verdict()
                notes.html(EVIDENCE)
                hardware = hardware_form()
                experiments = experiment_form(lets_load)
                claims_drawer()
    return Widgets(
        controls, **buttons, **top, instrument=instrument, messages=messages, compared=compared, checked=checked,
        audited=audited, loaded=loaded, drawer=drawer, plots=(gaps, positions, lengths), advice=advice,
        verdict=card, hardware=hardware, experiments=experiments, models=models,
    )  # fmt: skip


def _top(lets_load: bool) -> tuple[dict[str, Any], own_models.Form | None]:
    """The same on every door: the name, the doors, the models, what to share, the theme."""
    with gr.Row(elem_id="ds-top"):
        notes.html(name="ds-name", html_template=TITLE)
        notes.html(name="ds-tools", html_template=PILL + SHARE)
        theme = gr.Button("◐ Theme", elem_id="ds-theme")
    with gr.Column(elem_id="ds-share", elem_classes=["ds-menu"]):
        share = {
            "link": gr.Button("Copy link", elem_id="ds-link"),
            "save": gr.Button("Save run", elem_id="ds-save"),
            "export": gr.Button("Save as a page", elem_id="ds-export"),
            "load": gr.UploadButton("Load run", elem_id="ds-load", type="filepath"),
        }
    with gr.Column(elem_id="ds-models", elem_classes=["ds-menu"]):
        notes.html(html_template=ENGINE)
        models = own_models.form() if lets_load else None
    return share | {"theme": theme}, models


def _receiver() -> gr.HTML:
    """A hidden component that passes its value on to the instrument."""
    return notes.html(js=RECEIVE, html_template="<i hidden></i>", elem_classes=["ds-off"])


def _instrument(value: str, functions: list[ServerFunction], events: list[str]) -> gr.HTML:
    connect = CONNECT.format(events=json.dumps(events))
    return notes.html(
        value, "ds-instrument", f"{connect} {RECEIVE}", server_functions=functions,
        html_template="<draftscope-instrument></draftscope-instrument>",
    )  # fmt: skip
