"""The page: the header and its doors, the composer, the instrument, and the listeners between them and the engine.

The instrument is one JavaScript element; Python only ever hands it deltas (runs/feed.py). Nothing here decodes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import gradio as gr

from draftscope.base.errors import DraftscopeError
from draftscope.trace import files
from draftscope.trace.events import AnyEvent
from draftscope_app.engine.admission import Admission
from draftscope_app.engine.site import Site
from draftscope_app.engine.visitors import Visitors
from draftscope_app.page import bundle, controls, host, opening_settings
from draftscope_app.page.front import picture
from draftscope_app.page.layout import DoorLayout, Part, Widgets, lay_out
from draftscope_app.page.listeners import browser_controls
from draftscope_app.page.listeners.engine_status import EngineListeners
from draftscope_app.page.listeners.runs import RunListeners
from draftscope_app.page.listeners.save_and_load import FileListeners
from draftscope_app.page.runs import recorded
from draftscope_app.page.runs.feed import recording
from draftscope_app.page.shared import Shared
from draftscope_app.page.task import Core, TaskPage

UPLOADS_S = 3600  # how long an uploaded file is kept, and how often old ones are deleted


@dataclass(frozen=True)
class PageDoor:
    """A door that the page has: its tasks' pages, their cards in the instrument as mount -> folder, the style sheets of
    their components, and what lays those out, if they have any."""

    name: str
    title: str
    sentence: str
    tasks: Sequence[type[TaskPage]]
    cards: dict[str, Path]
    styles: Sequence[Path] = ()
    lay_out: Callable[[Sequence[Part]], None] | None = None


def script(site: Site, doors: Sequence[PageDoor] = ()) -> str:
    """The page's own script; see `bundle.script`."""
    values = {name: value for door in doors for task in door.tasks for name, value in task.hand_over().items()}
    cards = {mount: folder for door in doors for mount, folder in door.cards.items()}
    sentences = {door.name: door.sentence for door in doors}
    return bundle.script(site.network, site.chat, cards, doors=sentences, **values)


def front(doors: Sequence[PageDoor] = ()) -> str:
    """What the document shows before any script has run."""
    return picture(first_run(), [(door.name, door.title) for door in doors])


def build(
    admission: Admission,
    visitors: Visitors,
    site: Site | None = None,
    drafter: str | None = None,
    doors: Sequence[PageDoor] = (),
) -> gr.Blocks:
    """The whole page over one engine, with these `doors` beside the core's own. `drafter` is selected when it opens."""
    site = site or Site()
    max_tokens = admission.limits.max_tokens
    defaults = controls.defaults() | opening_settings.settings(drafter, site.chat)
    defaults["max_new_tokens"] = min(defaults["max_new_tokens"], max_tokens)
    shared = Shared(admission, visitors, defaults, first_run(), site)
    first = recording(shared.first) if shared.first else ""
    tasks = [[task(shared) for task in door.tasks] for door in doors]
    layouts = [DoorLayout(door.name, door.title, made, door.lay_out) for door, made in zip(doors, tasks, strict=True)]
    demo = gr.Blocks(title="Draftscope", analytics_enabled=False, fill_width=True, delete_cache=(UPLOADS_S, UPLOADS_S))
    with demo:
        widgets = lay_out(defaults, max_tokens, first, site.lets_load, host.functions(shared), layouts)
        _attach(demo, shared, widgets, [task for made in tasks for task in made])
    return demo


def first_run() -> tuple[AnyEvent, ...]:
    """The shipped recorded run, if there is one that can be read."""
    path = recorded.PICTURES / f"first{recorded.SUFFIX}"
    try:
        return files.read(path).events if path.exists() else ()
    except DraftscopeError:
        return ()


def _attach(demo: gr.Blocks, shared: Shared, widgets: Widgets, tasks: Sequence[TaskPage]) -> None:
    names = controls.names()
    standing = [shared.defaults[name] for name in names]
    query = f"Draftscope.query({json.dumps(names)}, values, {json.dumps(standing)})"
    browser_controls.attach(widgets, shared.defaults, query)
    runs = RunListeners(shared, widgets)
    core = Core(widgets, runs, runs.attach(query))
    FileListeners(shared, widgets).attach()
    for task in tasks:
        task.attach(core)
    EngineListeners(shared, widgets).attach(demo)
