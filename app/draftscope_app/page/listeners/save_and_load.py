"""Save run and Load run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradio as gr

from draftscope.base.errors import DraftscopeError
from draftscope.trace import files
from draftscope.trace.events import AnyEvent, Burst, Round
from draftscope_app.engine.admission import PageRequest
from draftscope_app.engine.answers import Log
from draftscope_app.page import opening_settings
from draftscope_app.page.controls import names
from draftscope_app.page.layout import Widgets
from draftscope_app.page.plots.run_plots import pictures
from draftscope_app.page.runs import recorded
from draftscope_app.page.runs.feed import note, recording
from draftscope_app.page.shared import PRIVATE, Shared, sent_by

MAX_ROUNDS = 50_000  # of a run that a page can show; one that it decodes has a few thousand


class Picture(PageRequest):
    """One of the recorded runs that the page opens with."""

    run: str


class FileListeners:
    def __init__(self, shared: Shared, widgets: Widgets) -> None:
        self.shared, self.widgets = shared, widgets

    def attach(self) -> None:
        widgets = self.widgets
        widgets.save.click(None, None, None, js="() => { Draftscope.save('trace'); }")
        widgets.export.click(None, None, None, js="() => { Draftscope.save('page'); }")
        # One file at a time: a large one takes much memory, and a thread that parses leaves the others little time.
        widgets.load.upload(
            self.open, widgets.load, [widgets.instrument, *widgets.plots],
            concurrency_limit=1, concurrency_id="load", trigger_mode="always_last", **PRIVATE,
        )  # fmt: skip
        widgets.instrument.picture(
            self.picture, None, [widgets.instrument, *widgets.plots, *widgets.values],
            concurrency_limit=1, concurrency_id="load", **PRIVATE,
        )  # fmt: skip

    def open(self, path: str | None, request: gr.Request) -> list[Any]:
        """Shows a saved run. An invalid file is refused in one sentence, and what is shown stays."""
        nothing = [gr.skip()] * len(self.widgets.plots)
        if not path:
            return [gr.skip(), *nothing]
        try:
            read = files.read(path, self.shared.admission.limits.max_upload_mb * 2**20)
            events = [event for event in read.events if event.run == read.events[0].run]
            refuse_endless(events)
        except DraftscopeError as error:
            return [note(str(error)), *nothing]
        several = "" if len(events) == len(read.events) else "The file holds several runs; the first is shown."
        return self._shown(events, read.warning or several, request)

    def picture(self, event: gr.EventData, request: gr.Request) -> list[Any]:
        """Shows one of the recorded runs that the page opens with, and sets the controls as it was written."""
        try:
            events = recorded.picture(Picture.of(sent_by(event)).run)
        except DraftscopeError as error:
            return [note(str(error)), *[gr.skip()] * len(self.widgets.plots), *[gr.skip()] * len(names())]
        return [*self._shown(events, "", request), *self._as_written(events[0].run)]

    def _as_written(self, run: str) -> list[Any]:
        """The controls as a picture was written; left alone where its drafter cannot run here."""
        values = dict(self.shared.defaults) | opening_settings.picture(run)
        drafter = self.shared.drafter(values["drafter"])
        able = drafter is not None and drafter.available
        return [values[name] if able else gr.skip() for name in names()]

    def _shown(self, events: Sequence[AnyEvent], sentence: str, request: gr.Request) -> list[Any]:
        """From now on the visitor's run."""
        shown = Log()
        shown.add(files.line(event) for event in events)
        self.shared.visitors.of(request.session_hash).replace(None)
        self.shared.visitors.show(request.session_hash, shown)
        return [recording(events, sentence), *pictures(events)]


def refuse_endless(events: Sequence[AnyEvent]) -> None:
    """Raises `DraftscopeError` for a run of more rounds than a browser draws."""
    rounds = sum(isinstance(event, Round | Burst) for event in events)
    if rounds > MAX_ROUNDS:
        raise DraftscopeError(
            f"The run has {rounds:,} rounds, and the page shows at most {MAX_ROUNDS:,}; load a shorter one, or read "
            "the file with draftscope.read."
        )
