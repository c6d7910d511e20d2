"""What is on the page: the top row, the composer, the instrument, and hidden components that pass messages on to it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import gradio as gr

from draftscope_app.page import notes
from draftscope_app.page.controls import Controls
from draftscope_app.page.panel import panel
from draftscope_app.page.runs import own_models

ServerFunction = Callable[..., Awaitable[Any]]

EVENTS = ("fork", "set", "resume", "picture")  # what the core's cards ask for; the answers come as deltas
MESSAGES = "messages"  # the area of hidden components that pass messages on to the instrument
TITLE = (
    '<a class="ds-skip" href="#ds-instrument">Skip to the run</a><h1>Draftscope</h1><nav aria-label="Doors">{}</nav>'
)
DOOR = '<a href="?door={0}" data-door="{0}">{1}</a>'  # an address of the page (host/doors.js)
PILL = notes.OPENS.format("ds-models", '<i aria-hidden="true"></i><span class="ds-loaded">no model yet</span>')
SHARE = notes.OPENS.format("ds-share", "Share")
ENGINE = '<p class="ds-engine" role="status"></p>'
RECEIVE = "Draftscope.receive(props.value); watch('value', () => Draftscope.receive(props.value));"
CONNECT = "Draftscope.connect({{ events: {events}, trigger, server }});"


class Part(Protocol):
    """What a task puts on the page; see `TaskPage`."""

    @property
    def events(self) -> tuple[str, ...]: ...

    def functions(self) -> list[ServerFunction]: ...

    def lay_out(self, area: str) -> None: ...


@dataclass(frozen=True)
class DoorLayout:
    """A door of this page: its tasks, and how their components stand beside each other where they have any."""

    name: str
    title: str
    tasks: Sequence[Part]
    lay_out: Callable[[Sequence[Part]], None] | None = None


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
    messages: gr.HTML  # of the core; two senders to one component would overwrite each other
    drawer: gr.Accordion  # holds the plots
    plots: tuple[gr.Plot, gr.Plot, gr.Plot]
    models: own_models.Form | None

    @property
    def values(self) -> list[gr.components.Component]:
        return list(self.controls.values())


def by_name(widgets: Mapping[str, Any], values: Mapping[Any, Any]) -> dict[str, Any]:
    """What components hold, by the names under which a page knows them. A text that was never written is empty."""
    given = {name: values[widget] for name, widget in widgets.items()}
    return given | {"prompt": given["prompt"] or ""} if "prompt" in given else given


def lay_out(
    defaults: Controls,
    max_tokens: int,
    first: str,
    lets_load: bool,
    functions: list[ServerFunction],
    doors: Sequence[DoorLayout] = (),
) -> Widgets:
    """All components, inside a `gr.Blocks`. `first` is the delta that the page opens with; the instrument may call
    the server's `functions`."""
    tasks = [task for door in doors for task in door.tasks]
    top, models = _top(lets_load, doors)
    with gr.Column(elem_id="ds-controls"):
        controls, buttons = panel(defaults, max_tokens)
    with gr.Column(elem_id="ds-main"):
        events = [*EVENTS, *(event for task in tasks for event in task.events)]
        called = [*functions, *(function for task in tasks for function in task.functions())]
        instrument = _instrument(first, called, events)
        messages = receiver()
        for task in tasks:
            task.lay_out(MESSAGES)
        with gr.Accordion("After the run: gaps, acceptance, lengths", open=False, elem_id="ds-after") as drawer:
            gaps = gr.Plot(show_label=False)
            with gr.Row():
                positions, lengths = gr.Plot(show_label=False), gr.Plot(show_label=False)
        for door in doors:
            _door(door)
    return Widgets(
        controls, **buttons, **top, instrument=instrument, messages=messages, drawer=drawer,
        plots=(gaps, positions, lengths), models=models,
    )  # fmt: skip


def _door(door: DoorLayout) -> None:
    """Gradio builds what an accordion holds when it is first opened, which entering the door does (host/doors.js)."""
    if door.lay_out is None:
        return
    with gr.Accordion(door.title, open=False, elem_id=f"ds-door-{door.name}", elem_classes=["ds-door"]):
        door.lay_out(door.tasks)


def _top(lets_load: bool, doors: Sequence[DoorLayout]) -> tuple[dict[str, Any], own_models.Form | None]:
    """The same on every door: the name, the doors, the models, what to share, the theme."""
    links = DOOR.format("watch", "Watch") + "".join(DOOR.format(door.name, door.title) for door in doors)
    with gr.Row(elem_id="ds-top"):
        notes.html(name="ds-name", html_template=TITLE.format(links))
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


def receiver() -> gr.HTML:
    """A hidden component that passes its value on to the instrument."""
    return notes.html(js=RECEIVE, html_template="<i hidden></i>", elem_classes=["ds-off"])


def _instrument(value: str, functions: list[ServerFunction], events: list[str]) -> gr.HTML:
    connect = CONNECT.format(events=json.dumps(events))
    return notes.html(
        value, "ds-instrument", f"{connect} {RECEIVE}", server_functions=functions,
        html_template="<draftscope-instrument></draftscope-instrument>",
    )  # fmt: skip
