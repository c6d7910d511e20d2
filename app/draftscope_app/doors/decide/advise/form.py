"""What is measured on Decide, and the places of its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gradio as gr

from draftscope.advise.question import MAX_READERS, Objective, Question
from draftscope_app.doors.decide.advise.advice_html import OBJECTIVES
from draftscope_app.doors.decide.advise.map import MACHINES, MAPS, THIS_MACHINE
from draftscope_app.page import bundle, notes

ALL_KINDS = "all"  # of the texts that are shipped
MIN_S, USUAL_S, MAX_S = 5, 30, 120  # of measuring
ABOUT = (
    "<p>Counts how many guesses are accepted and times the rounds, then runs the best setting in turn with plain "
    "decoding. The verdict stands here within these seconds and sharpens until they are over.</p>"
)
UNDECIDED = "<p>Nothing is measured on your prompts yet, so nothing is decided.</p>"
ANSWER = """watch("value", () => requestAnimationFrame(() => Draftscope.explain(element)));
element.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    const text = button.parentElement.querySelector("pre");
    try { await navigator.clipboard.writeText(text.textContent); button.textContent = "Copied"; }
    catch { getSelection().selectAllChildren(text); button.textContent = "Selected: press Ctrl+C"; }
});"""


@dataclass(frozen=True)
class AdviceForm:
    """What is asked, how far it is, and the verdict. `fields` are by the names of `page.job`."""

    fields: dict[str, gr.components.Component]
    measure: gr.Button
    stop: gr.Button
    costs: gr.Button  # measures the costs of this machine too, once
    progress: gr.HTML
    answer: gr.HTML


@dataclass(frozen=True)
class FoundCard:
    """What else was found: hidden until there is an answer."""

    group: gr.Column
    details: gr.HTML
    save: gr.DownloadButton
    report: gr.State  # what the map is drawn from
    map: MapForm


@dataclass(frozen=True)
class MapForm:
    """The map with its "what if"."""

    group: gr.Column  # hidden until there is an answer
    which: gr.Radio
    alpha: gr.Slider  # 0: as measured
    draft_cost: gr.Slider
    machine: gr.Dropdown
    note: gr.HTML
    plot: gr.Plot

    @property
    def inputs(self) -> list[gr.Radio | gr.Slider | gr.Dropdown]:
        return [self.which, self.alpha, self.draft_cost, self.machine]


def form() -> AdviceForm:
    """The question, and its verdict below it."""
    with gr.Column(elem_id="ds-advice", elem_classes=["ds-card"]):
        notes.html('<h2 class="ds-stage">Measure on my prompts</h2>')
        with gr.Row(elem_id="ds-advice-form"):
            fields = _first_fields()
        with gr.Accordion("Drafters, temperature, lengths, load", open=False, elem_id="ds-advice-more"), gr.Row():
            fields |= _more_fields()
        with gr.Row(elem_id="ds-advice-go", elem_classes=["ds-measure"]):
            measure = gr.Button(f"Measure, {USUAL_S} s", variant="primary", elem_id="ds-advice-measure")
            stop = gr.Button("Stop measuring", elem_id="ds-advice-stop", interactive=False)
            costs = gr.Button("", elem_id="ds-advice-costs", visible=False)
        progress = notes.html(ABOUT, "ds-advice-progress")
        answer = notes.html(UNDECIDED, "ds-advice-answer", js=ANSWER)
    price, objective, seconds = fields["price_per_hour"], fields["objective"], fields["seconds"]
    assert isinstance(objective, gr.Dropdown) and isinstance(seconds, gr.Slider)
    shown = f"(objective) => ({{ __type__: 'update', visible: objective === '{Objective.COST}' }})"
    objective.change(None, objective, price, js=shown)
    seconds.change(None, seconds, measure, js="(s) => ({ __type__: 'update', value: `Measure, ${s} s` })")
    return AdviceForm(fields, measure, stop, costs, progress, answer)


def details() -> FoundCard:
    """Settings, candidates and the map, across the page."""
    with gr.Column(elem_id="ds-verdict", elem_classes=["ds-card"], visible=False) as group:
        details = notes.html(name="ds-advice-details", js=ANSWER)
        map_form = _map()
        save = gr.DownloadButton("Save the report", elem_id="ds-advice-save", visible=False)
        return FoundCard(group, details, save, gr.State(None), map_form)


def _map() -> MapForm:
    with gr.Column(visible=False, elem_id="ds-advice-map") as group:
        which = gr.Radio(list(MAPS), value=MAPS[0], label="Map of the speedup", elem_id="ds-advice-which")
        with gr.Row(elem_id="ds-advice-what-if"):
            alpha = gr.Slider(0, 0.99, 0, step=0.01, label="Acceptance (0: as measured)", elem_id="ds-advice-alpha")
            draft_cost = gr.Slider(
                0.1, 3, 1, step=0.05, label="Draft cost, times (1: as measured)", elem_id="ds-advice-draft"
            )
            machine = gr.Dropdown(
                list(MACHINES), value=THIS_MACHINE, label="On which machine", elem_id="ds-advice-machine"
            )
        note = notes.html(name="ds-advice-map-note")
        plot = gr.Plot(show_label=False)
    return MapForm(group, which, alpha, draft_cost, machine, note, plot)


def _first_fields() -> dict[str, gr.components.Component]:
    presets = bundle.presets()
    kinds = [(f"all kinds of text ({len(presets)})", ALL_KINDS), *((kind, kind) for kind in presets)]
    return {
        "own": gr.Textbox(
            label="Your prompts, one per line", placeholder="empty: the kind of text below", lines=1, max_lines=6,
            elem_id="ds-advice-own",
        ),
        "kind": gr.Dropdown(kinds, value=ALL_KINDS, label="Kind of text", elem_id="ds-advice-kind"),
        "seconds": gr.Slider(MIN_S, MAX_S, USUAL_S, step=5, label="Seconds for measuring", elem_id="ds-advice-s"),
    }  # fmt: skip


def _more_fields() -> dict[str, gr.components.Component]:
    usual = Question()
    whole: dict[str, Any] = {"precision": 0, "minimum": 1}
    return {
        "drafters": gr.Dropdown(
            [], value=[], multiselect=True, label="Drafters (none chosen: all)", elem_id="ds-advice-drafters"
        ),
        "objective": gr.Dropdown(
            [(words, str(objective)) for objective, words in OBJECTIVES.items()], value=str(usual.objective),
            label="What should become better", elem_id="ds-advice-objective",
        ),
        "price_per_hour": gr.Number(
            1.0, label="Price of an hour of the machine", minimum=0, visible=False, elem_id="ds-advice-price"
        ),
        "temperature": gr.Slider(0, 2, usual.temperature, step=0.05, label="Temperature", elem_id="ds-advice-t"),
        "length": gr.Number(usual.length, label="Tokens of an answer", elem_id="ds-advice-length", **whole),
        "concurrency": gr.Number(
            usual.concurrency, label="Concurrent requests", maximum=MAX_READERS,
            elem_id="ds-advice-requests", **whole,
        ),
    }  # fmt: skip
