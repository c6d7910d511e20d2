"""The drawer of experiments: one is chosen, its chart shown, and run here, by commands in processes of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gradio as gr
from markupsafe import Markup

from draftscope.base.errors import DraftscopeError
from draftscope.claims.experiments import EXPERIMENTS, Experiment, find, named
from draftscope.claims.saved import shipped
from draftscope_app.doors.decide import commands
from draftscope_app.doors.decide.commands import MAX_S, ExperimentResult
from draftscope_app.doors.decide.experiments import experiment_html
from draftscope_app.doors.decide.experiments.job import ExperimentJob
from draftscope_app.doors.decide.experiments.plot import figure
from draftscope_app.doors.decide.page import EVIDENCE
from draftscope_app.engine.admission import Given
from draftscope_app.engine.answers import Answer, Part
from draftscope_app.engine.jobs import new_id
from draftscope_app.page import notes
from draftscope_app.page.shared import PRIVATE, Shared
from draftscope_app.page.task import Core, TaskListeners, TaskPage, stands

NOT_HERE = '<p class="ds-muted">This server does not run commands for visitors. Run them in a terminal of your own.</p>'

STILL = Markup(
    '<details id="ds-experiments" class="ds-card"><summary>Experiments: what speculation costs and saves</summary>'
    '<p class="ds-muted">Their charts are on the page with a server; what they showed is here.</p>{}</details>'
)


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


def experiment_form(lets_run: bool) -> ExperimentForm:
    """A drawer below the instrument."""
    names = [experiment.name for experiment in EXPERIMENTS]
    run = stop = None
    with gr.Accordion(
        "Experiments: what speculation costs and saves", open=False, elem_id="ds-experiments", elem_classes=["ds-card"]
    ) as drawer:
        which = gr.Dropdown(names, value=names[0], label="Experiment", elem_id="ds-experiments-which")
        about = notes.html(name="ds-experiments-about")
        plot = gr.Plot(show_label=False, visible=False, elem_id="ds-experiments-plot")
        if lets_run:
            with gr.Row(elem_id="ds-experiments-go", elem_classes=["ds-measure"]):
                run = gr.Button("Run it here", elem_id="ds-experiments-run")
                stop = gr.Button("Stop", elem_id="ds-experiments-stop", interactive=False)
        running = notes.html("" if lets_run else NOT_HERE, "ds-experiments-running")
    return ExperimentForm(drawer, which, about, plot, run, stop, running)


class Page(TaskPage):
    """The task, and what is shown of an experiment that is chosen."""

    kind = "experiment"

    @classmethod
    def still(cls) -> Markup:
        parts = [experiment_html.about(experiment, shipped()) for experiment in EXPERIMENTS]
        return STILL.format(Markup().join(Markup("<section>{}</section>").format(part) for part in parts))

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._results: dict[str, ExperimentResult] = {}  # by experiment: what was measured here last

    def lay_out(self, area: str) -> None:
        if area == EVIDENCE:
            self.form = experiment_form(self.shared.site.lets_load)

    def attach(self, core: Core) -> None:
        form = self.form
        chart: list[Any] = [form.about, form.plot]
        if form.run is None or form.stop is None:
            self._chosen(self.chart, chart)
            return
        self._chosen(self.offer, [*chart, form.run, form.stop, form.running])
        outputs = [*chart, form.which, form.run, form.stop, form.running]
        TaskListeners(self.shared, self, {"which": form.which}).attach(form.run.click, outputs, core.resumed)
        form.stop.click(self.shared.stop, None, None, queue=False, **PRIVATE)

    def _chosen(self, listener: Callable[..., list[Any]], outputs: list[Any]) -> None:
        """Calls it with the name of the experiment that is to be shown."""
        for changed in (self.form.drawer.expand, self.form.which.change):
            changed(listener, self.form.which, outputs, **PRIVATE)

    def chart(self, name: Any) -> list[Any]:
        """What was measured here last, or else the shipped result."""
        experiment = find(str(name)) or EXPERIMENTS[0]
        result = self._results.get(experiment.name)
        saved = shipped()
        chart = experiment_html.chart_of(experiment, result.values if result else saved)
        plot = gr.update(value=figure(chart), visible=True) if chart else gr.update(value=None, visible=False)
        return [
            experiment_html.about_local(experiment, result, saved)
            if result
            else experiment_html.about(experiment, saved),
            plot,
        ]

    def offer(self, name: Any, request: gr.Request) -> list[Any]:
        """The same, and whether it can be run from here, or why not."""
        active = self.shared.visitors.of(request.session_hash).active
        if active is not None and active.job.kind == self.kind:
            return [*self.chart(name), *[gr.skip()] * 3]
        experiment = find(str(name)) or EXPERIMENTS[0]
        why = _why_not(experiment)
        said = notes.muted(why or experiment_html.how_long(experiment, MAX_S))
        return [*self.chart(name), gr.update(interactive=not why), gr.update(interactive=False), said]

    def job(self, given: Given, _: Any, __: str | None) -> ExperimentJob:
        experiment = named(str(given["which"]))
        if why := _why_not(experiment):
            raise DraftscopeError(why)
        return ExperimentJob(id=new_id(), name=experiment.name)

    def show(self, answer: Answer, part: Part) -> list[Any]:
        """Progress, then the result of this machine. While it runs no other experiment can be chosen, over which its
        result would be written."""
        assert isinstance(answer.job, ExperimentJob)
        name, chart = answer.job.name, [gr.skip(), gr.skip()]
        if not answer.over:
            said = stands(part)
        elif answer.lines:
            self._results[name] = ExperimentResult.model_validate_json(answer.lines[-1])
            said, chart = Markup(), self.chart(name)
        else:
            said = notes.refused(str(answer.note) if answer.refused else "Stopped; nothing was measured.")
        over = answer.over
        which = gr.update(value=name, interactive=over)
        return [*chart, which, gr.update(interactive=over), gr.update(interactive=not over), said]

    def refuse(self, sentence: str) -> list[Any]:
        return [*[gr.skip()] * 5, notes.refused(sentence)]


def _why_not(experiment: Experiment) -> str:
    """Why the page cannot run an experiment; empty if it can."""
    if experiment.chart is not None and all(map(commands.runnable, experiment.commands)):
        return ""
    return f"This experiment cannot be run from the page: {experiment.claim.why_not}."
