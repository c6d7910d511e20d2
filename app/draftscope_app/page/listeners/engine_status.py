"""The engine's status on the page: for a new visitor, while models load, and when a visitor loads other models."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from typing import Any

import gradio as gr

from draftscope.base.errors import DraftscopeError
from draftscope_app.engine.answers import watch
from draftscope_app.engine.jobs import DrafterChoice, EngineStatus, new_id
from draftscope_app.page import drafter_lines, opening_settings
from draftscope_app.page.controls import from_query, names
from draftscope_app.page.layout import Widgets
from draftscope_app.page.panel import first_choices
from draftscope_app.page.plots.run_plots import pictures
from draftscope_app.page.runs import own_models
from draftscope_app.page.runs.feed import note
from draftscope_app.page.shared import PRIVATE, Shared

OPENS = (
    opening_settings.TREE["drafter"],
    opening_settings.CHAT_FIRST["drafter"],
)  # of the page's opening: for a text, for a chat


class EngineListeners:
    def __init__(self, shared: Shared, widgets: Widgets) -> None:
        self.shared, self.engine, self.widgets = shared, shared.admission.engine, widgets

    def attach(self, demo: gr.Blocks) -> None:
        widgets, drafter, models = self.widgets, self.widgets.controls["drafter"], self.widgets.models
        messages = widgets.messages
        demo.load(self.arrive, None, [*widgets.values, messages, *widgets.plots], queue=False, **PRIVATE)
        demo.load(
            self.watch_engine, None, [messages, drafter], concurrency_limit=None, concurrency_id="engine", **PRIVATE
        )
        demo.unload(self.leave)
        if models is not None:
            models.load.click(
                self.load_models, [*models.fields, drafter], [messages, drafter],
                concurrency_limit=None, preprocess=False, **PRIVATE,
            )  # fmt: skip

    def arrive(self, request: gr.Request) -> list[Any]:
        """The address's settings, and the plots of the recorded run. A control that the address does not name is left
        alone: a visitor may have changed it already."""
        query = dict(request.query_params or {})
        controls, sentence = from_query(query, self.shared.defaults)
        values = [controls[name] if name in query else gr.skip() for name in names()]
        if "drafter" in query:  # the list may not have it yet
            values[names().index("drafter")] = self.offered(controls["drafter"])
        text = json.dumps({"seq": new_id(), "arrived": True} | ({"note": sentence} if sentence else {}))
        return [*values, text, *pictures(self.shared.first)]

    def leave(self, request: gr.Request) -> None:
        self.shared.visitors.left(request.session_hash)

    async def watch_engine(self, request: gr.Request) -> AsyncIterator[Any]:
        """The engine's status while models load; then the drafters that it has."""
        linked = from_query(dict(request.query_params or {}), self.shared.defaults)[0]
        async for status in watch(self.engine.changed, lambda: self.engine.status):
            over = status.phase != "loading" and not status.comes_back
            offered = self.offered(linked["drafter"]) if over and status.drafters else gr.skip()
            yield [engine_message(status), offered]
            if over:
                return

    async def load_models(self, target: str, draft: str, revision: str, drafter: str) -> AsyncIterator[Any]:
        """Loads other models; where that fails, one sentence says why and nothing changes."""
        engine = self.engine
        try:
            async for status in own_models.changes(engine, own_models.wanted(engine.load, target, draft, revision)):
                yield [engine_message(status), gr.skip()]
        except DraftscopeError as error:
            yield [note(str(error)), gr.skip()]
            return
        if status.refused:
            yield [note(f"{status.refused} The models that were here are still loaded."), gr.skip()]
        elif status.phase == "ready":
            self.shared.visitors.models_changed()
            yield [note("The models are loaded; press Run."), self.offered(able(drafter, status.drafters))]

    def offered(self, drafter: str) -> Any:
        """The list of the drafters that can run, with `drafter` chosen where there is one of that name."""
        known = self.engine.status.drafters
        if not known:
            return gr.update(choices=first_choices(drafter), value=drafter)
        default, chat = self.shared.defaults["drafter"], self.engine.status.chat
        usual = OPENS[chat] if default == OPENS[not chat] else default
        is_linked = drafter != default and drafter in {d.name for d in known}
        chosen = drafter if is_linked else able(usual, known)
        choices = [(d.title, d.name) for d in drafter_lines.lines(known) if not d.lacks or d.name == chosen]
        return gr.update(choices=choices, value=chosen)


def able(drafter: str, known: Sequence[DrafterChoice]) -> str:
    """That drafter if it can run with the models that are loaded, else the first that can and reads the same settings,
    else the usual one."""
    others = [d for d in known if d.available and d.name != "plain" and not d.is_typed]
    read = {d.uses for d in known if d.name == drafter}
    nearest = sorted(others, key=lambda d: (d.name != drafter, d.uses not in read, not d.usual))
    return nearest[0].name if nearest else drafter


def engine_message(status: EngineStatus) -> str:
    """The engine's state for the header, and what its drafters read; a failure to load is also the page's message."""
    more: dict[str, Any] = {"engine": status.sentence}
    if status.drafters:
        more["titles"] = {d.name: d.title for d in status.drafters}
        more["uses"] = {d.name: d.uses for d in status.drafters}
        more["able"] = [d.name for d in status.drafters if d.available]
        more["instead"] = {d.name: able(d.name, status.drafters) for d in status.drafters if not d.available}
        more["chat"] = status.chat
        more["drafters"] = {
            "of": drafter_lines.OF,
            "lines": [asdict(line) for line in drafter_lines.lines(status.drafters)],
        }
    if status.phase == "failed":
        more["note"] = status.sentence
    return json.dumps({"seq": new_id(), **more})
