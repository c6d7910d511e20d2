"""The drawer of experiments: one is chosen, its chart shown, and run here, in processes of its own, one at a time."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from draftscope.base.errors import DraftscopeError, quoted
from draftscope.claims.evidence import in_folder
from draftscope.claims.experiments import EXPERIMENTS, Experiment, find
from draftscope.claims.saved import found_in, shipped
from draftscope_app.engine import commands
from draftscope_app.page import notes
from draftscope_app.page.experiments import view
from draftscope_app.page.shared import PRIVATE
from draftscope_app.reports.experiment_plot import figure

MAX_S = 600.0  # for all commands of an experiment
BUSY = "An experiment is running on this server already; wait for its end, or press Stop."
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


def experiment_form(lets_run: bool) -> ExperimentForm:
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


class ExperimentListeners:
    def __init__(self, form: ExperimentForm, max_s: float = MAX_S) -> None:
        self.form, self.max_s = form, max_s
        self._stop: asyncio.Event | None = None  # of the experiment that runs now
        self._results: dict[str, view.LocalResult] = {}  # by experiment: what this server measured last

    def attach(self) -> None:
        form = self.form
        shown: list[Any] = [form.about, form.plot]
        if form.run is None or form.stop is None:
            self._chosen(self.show, shown)
            return
        self._chosen(self.offer, [*shown, form.run, form.stop, form.running])
        outputs = [*shown, form.which, form.run, form.stop, form.running]
        form.run.click(self.run, form.which, outputs, concurrency_limit=None, **PRIVATE)
        form.stop.click(self.stop, None, form.stop, queue=False, **PRIVATE)

    def _chosen(self, listener: Callable[[Any], list[Any]], outputs: list[Any]) -> None:
        """Calls it with the name of the experiment that is to be shown."""
        for changed in (self.form.drawer.expand, self.form.which.change):
            changed(listener, self.form.which, outputs, **PRIVATE)

    def show(self, name: Any) -> list[Any]:
        """What was measured here last, or else the shipped result."""
        experiment = find(str(name)) or EXPERIMENTS[0]
        result = self._results.get(experiment.name)
        saved = shipped()
        chart = view.chart_of(experiment, result.values if result else saved)
        plot = gr.update(value=figure(chart), visible=True) if chart else gr.update(value=None, visible=False)
        return [view.about_local(experiment, result, saved) if result else view.about(experiment, saved), plot]

    def offer(self, name: Any) -> list[Any]:
        """The same, and whether it can be run from here, or why not; one that runs already can be stopped."""
        experiment = find(str(name)) or EXPERIMENTS[0]
        runs, why = self._stop is not None, _why_not(experiment)
        said = notes.muted(BUSY if runs else why or view.how_long(experiment, self.max_s))
        buttons = [gr.update(interactive=enabled) for enabled in (not why, runs)]
        return [*self.show(name), *buttons, said]

    async def stop(self) -> dict[str, Any]:
        """Ends the experiment that runs, from whichever tab it was started."""
        if self._stop is not None:
            self._stop.set()
        return gr.update(interactive=False)

    async def run(self, name: Any) -> AsyncIterator[list[Any]]:
        """Progress, then the result of this machine."""
        try:
            experiment = _runnable(str(name))
            if self._stop is not None:
                raise DraftscopeError(BUSY)
        except DraftscopeError as error:
            yield _answer(notes.refused(str(error)), stoppable=self._stop is not None)
            return
        self._stop = asyncio.Event()
        try:
            began = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                async with aclosing(self._measured(experiment, Path(folder), self._stop)) as lines:
                    async for line in lines:
                        yield _answer(line, running=True)
                seconds = time.monotonic() - began
                self._results[experiment.name] = await asyncio.to_thread(_read, Path(folder), seconds)
            yield _answer("", self.show(experiment.name))
        except DraftscopeError as error:
            yield _answer(notes.refused(str(error)))
        finally:
            self._stop = None

    async def _measured(self, experiment: Experiment, root: Path, stop: asyncio.Event) -> AsyncGenerator[str]:
        """Runs its commands within the time; raises `DraftscopeError` if one fails or it is stopped."""
        before = 0.0
        for at, command in enumerate(experiment.commands):
            folder = commands.folder_of(command, root)
            folder.mkdir()
            spent = 0.0
            async with aclosing(commands.running(command, folder, self.max_s - before)) as seconds:
                async for spent in seconds:
                    if stop.is_set():
                        raise DraftscopeError("Stopped; nothing was measured.")
                    yield view.progress(experiment, at, before + spent, self.max_s)
            before += spent


def _read(folder: Path, seconds: float) -> view.LocalResult:
    """The results in the folder, measured in that time."""
    evidence = in_folder(folder)
    skipped = [note for bench in evidence.benches for note in bench.get("notes", ()) if note.startswith("Stopped")]
    return view.LocalResult(found_in(evidence), seconds, skipped)


def _runnable(name: str) -> Experiment:
    experiment = find(name)
    if experiment is None:
        raise DraftscopeError(f"There is no experiment {quoted(name)}; choose one of the list.")
    if why := _why_not(experiment):
        raise DraftscopeError(why)
    return experiment


def _why_not(experiment: Experiment) -> str:
    """Why the page cannot run an experiment; empty if it can."""
    if experiment.chart is not None and all(map(commands.runnable, experiment.commands)):
        return ""
    return f"This experiment cannot be run from the page: {experiment.claim.why_not}."


def _answer(
    text: str, shown: list[Any] | None = None, running: bool = False, stoppable: bool | None = None
) -> list[Any]:
    """What `run` yields. While it runs, another experiment cannot be chosen, over which its result would be written.
    `stoppable`: whether one can stop an experiment; without it, whether this one runs."""
    able = (not running, not running, running if stoppable is None else stoppable)
    return [*(shown or [gr.skip(), gr.skip()]), *(gr.update(interactive=enabled) for enabled in able), text]
