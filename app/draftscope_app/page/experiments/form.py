"""The drawer of experiments: which one, its chart, and the buttons that run it here."""

from __future__ import annotations

from dataclasses import dataclass

import gradio as gr

from draftscope.claims.experiments import EXPERIMENTS

NOT_HERE = '<p class="ds-muted">This server does not run commands for visitors. Run them in a terminal of your own.</p>'


@dataclass(frozen=True)
class ExperimentForm:
    """What the listeners are attached to. Without `run` and `stop` this server runs nothing for its visitors."""

    drawer: gr.Accordion
    which: gr.Dropdown
    about: gr.HTML
    plot: gr.Plot
    run: gr.Button | None
    stop: gr.Button | None
    running: gr.HTML


def form(lets_run: bool) -> ExperimentForm:
    """A drawer below the instrument."""
    names = [experiment.name for experiment in EXPERIMENTS]
    run = stop = None
    with gr.Accordion("Experiments: what speculation costs and saves", open=False, elem_id="ds-experiments") as drawer:
        which = gr.Dropdown(names, value=names[0], label="Experiment", elem_id="ds-experiments-which")
        about = gr.HTML(apply_default_css=False, elem_id="ds-experiments-about", js_on_load=None)
        plot = gr.Plot(show_label=False, visible=False, elem_id="ds-experiments-plot")
        if lets_run:
            with gr.Row(elem_id="ds-experiments-go"):
                run = gr.Button("Run it here", elem_id="ds-experiments-run")
                stop = gr.Button("Stop", elem_id="ds-experiments-stop", interactive=False)
        running = gr.HTML(
            value="" if lets_run else NOT_HERE, apply_default_css=False, elem_id="ds-experiments-running",
            js_on_load=None,
        )  # fmt: skip
    return ExperimentForm(drawer, which, about, plot, run, stop, running)
