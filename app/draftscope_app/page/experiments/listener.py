"""Choosing an experiment and running it. One runs at a time on a server, in processes of its own."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import gradio as gr

from draftscope.base.errors import DraftscopeError, quoted
from draftscope.claims.evidence import in_folder
from draftscope.claims.experiments import EXPERIMENTS, Experiment, find
from draftscope.claims.saved import found_in, shipped
from draftscope_app.engine import commands
from draftscope_app.page.experiments import view
from draftscope_app.page.experiments.form import ExperimentForm
from draftscope_app.page.shared import PRIVATE
from draftscope_app.reports.experiment_plot import figure

MOST_S = 600.0  # for all commands of an experiment


class ExperimentListeners:
    def __init__(self, form: ExperimentForm, most_s: float = MOST_S) -> None:
        self.form, self.most_s = form, most_s
        self._stop: asyncio.Event | None = None  # of the experiment that runs now

    def attach(self) -> None:
        form = self.form
        shown = [form.about, form.plot]
        for changed in (form.drawer.expand, form.which.change):
            changed(self.show, form.which, shown, **PRIVATE)
        if form.run is None or form.stop is None:
            return
        form.run.click(
            self.run, form.which, [*shown, form.run, form.stop, form.running], concurrency_limit=None, **PRIVATE
        )
        form.stop.click(self.stop, None, None, queue=False, **PRIVATE)

    def show(self, name: Any) -> list[Any]:
        """The shipped result."""
        return _shown(find(str(name)) or EXPERIMENTS[0], shipped())

    async def stop(self) -> None:
        if self._stop is not None:
            self._stop.set()

    async def run(self, name: Any) -> AsyncIterator[list[Any]]:
        """Progress, then the result of this machine."""
        try:
            experiment = _runnable(str(name))
            if self._stop is not None:
                raise DraftscopeError("An experiment is running on this server already; wait for its end, or stop it.")
        except DraftscopeError as error:
            yield self._answer([gr.skip(), gr.skip()], view.refused(str(error)), running=False)
            return
        self._stop = asyncio.Event()
        try:
            with tempfile.TemporaryDirectory() as folder:
                async with aclosing(self._measured(experiment, Path(folder), self._stop)) as lines:
                    async for line in lines:
                        yield self._answer([gr.skip(), gr.skip()], line, running=True)
                found = await asyncio.to_thread(lambda: found_in(in_folder(Path(folder))))
            yield self._answer(_shown(experiment, found), "", running=False)
        except DraftscopeError as error:
            yield self._answer([gr.skip(), gr.skip()], view.refused(str(error)), running=False)
        finally:
            self._stop = None

    async def _measured(self, experiment: Experiment, root: Path, stop: asyncio.Event) -> AsyncGenerator[str]:
        """Runs its commands within the time; raises `DraftscopeError` if one fails or it is stopped."""
        before = 0.0
        for command in experiment.commands:
            folder = commands.folder_of(command, root)
            folder.mkdir()
            spent = 0.0
            async with aclosing(commands.running(command, folder, self.most_s - before)) as seconds:
                async for spent in seconds:
                    if stop.is_set():
                        raise DraftscopeError("The experiment was stopped; what is shown is the result of before.")
                    yield view.progress(command, before + spent, self.most_s)
            before += spent

    def _answer(self, shown: list[Any], text: str, running: bool) -> list[Any]:
        return [*shown, gr.update(interactive=not running), gr.update(interactive=running), text]


def _runnable(name: str) -> Experiment:
    experiment = find(name)
    if experiment is None:
        raise DraftscopeError(f"There is no experiment {quoted(name)}; choose one of the list.")
    if experiment.chart is None or not all(map(commands.runnable, experiment.commands)):
        raise DraftscopeError(f"This experiment cannot be run from the page: {experiment.claim.why_not}.")
    return experiment


def _shown(experiment: Experiment, saved: Mapping[str, Any]) -> list[Any]:
    chart = view.chart_of(experiment, saved)
    plot = gr.update(value=figure(chart), visible=True) if chart else gr.update(value=None, visible=False)
    return [view.about(experiment, saved), plot]
