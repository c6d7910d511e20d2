"""The panel of controls: what a visitor sets for a run, generated from the fields of the settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, get_args, get_origin

import gradio as gr
from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from draftscope.base.common_settings import Control
from draftscope_app.page import bundle, notes, opening_settings
from draftscope_app.page.controls import Controls, general, is_read, label_of, names, options, read_by

FIRST_CHOICES = [("Draft model, chain", "draft")]  # until the engine has sent its list
DRAFTERS = '<div class="ds-list"></div>'  # filled by host/drafters.js
ROW = ("temperature", "max_new_tokens")  # settings that stand beside prompt and drafter
MAX_STEPS = 1000  # of a slider; a number with more is typed in


def panel(values: Controls, max_tokens: int) -> tuple[dict[str, gr.components.Component], dict[str, Any]]:
    """Every control by name, in the order of `controls.names`; and the buttons among them. Shows `values`.

    The prompt beside the buttons that run it; below it examples of prompts, the drafter and the settings of `ROW`. The
    others follow, once they are asked for.
    """
    fields, first = options() | general(), first_choices(values["drafter"])
    prompt = gr.Textbox(values["prompt"], label="Prompt", lines=1, max_lines=6, elem_id="ds-prompt")
    with gr.Row(elem_id="ds-go"):
        run = gr.Button("Run", variant="primary", elem_id="ds-run")
        step = gr.Button("Step", elem_id="ds-step")
        stop = gr.Button("Stop", elem_id="ds-stop")
        settings = gr.Button("More", elem_id="ds-settings")
        settings.click(None, None, None, js="() => Draftscope.unfoldSettings()")
    with gr.Row(elem_id="ds-kinds"):
        kinds = {kind: gr.Button(kind, size="sm") for kind in bundle.presets()}
    notes.html(name="ds-choose", html_template=notes.OPENS.format("ds-drafters", "Which?"))
    drafter = gr.Dropdown(first, value=values["drafter"], label="Drafter", elem_id="ds-drafter")
    with gr.Column(elem_id="ds-drafters", elem_classes=["ds-menu"]):
        notes.html(html_template=DRAFTERS)
    widgets: dict[str, gr.components.Component] = {"prompt": prompt, "drafter": drafter}
    for name in ROW:
        widgets[name] = _widget(name, fields[name], values, max_tokens)
    with gr.Column(elem_id="ds-more"):
        with gr.Row(elem_id="ds-examples"):
            examples = {name: gr.Button(name, size="sm") for name in opening_settings.examples()}
        for name in sorted((name for name in fields if name not in ROW), key=lambda n: _control(fields[n]).advanced):
            widgets[name] = _widget(name, fields[name], values, max_tokens)
    return {name: widgets[name] for name in names()}, {
        "run": run, "stop": stop, "step": step, "kinds": kinds, "examples": examples,
    }  # fmt: skip


def first_choices(drafter: str) -> list[tuple[str, str]]:
    """The list of drafters until the engine has sent its own: the one that is asked for."""
    return FIRST_CHOICES if drafter == "draft" else [(drafter, drafter)]


def _control(field: FieldInfo) -> Control:
    return Control.of(field) or Control()


def _widget(name: str, field: FieldInfo, values: Controls, max_tokens: int) -> gr.components.Component:
    """The widget of one setting: a list, a box to tick, a slider, a number or a text, by the field's type and range."""
    control, value = _control(field), values[name]
    if name == "max_new_tokens":
        control = replace(control, most=min(control.most or max_tokens, max_tokens))
    common: dict[str, Any] = {
        "value": value,
        "label": label_of(name, field),
        "elem_id": f"ds-{name.replace('_', '-')}",
        "visible": name not in options() or is_read(name, read_by(None, values), values),
    }
    if get_origin(field.annotation) is Literal:
        choices = get_args(field.annotation)
        return gr.Dropdown(list(zip(control.choices or choices, choices, strict=True)), **common)
    if field.annotation is bool:
        return gr.Checkbox(**common)
    if field.annotation not in (int, float):
        return gr.Textbox(lines=control.lines, placeholder=control.placeholder, **common)
    step = control.step or (1 if field.annotation is int else 0.01)
    least, most = _ends(field, control, step)
    if least is not None and most is not None and (most - least) / step <= MAX_STEPS:
        return gr.Slider(least, most, step=step, **common)
    return gr.Number(minimum=least, precision=0 if field.annotation is int else None, **common)


def _ends(field: FieldInfo, control: Control, step: float) -> tuple[float | None, float | None]:
    """The least and the largest number that a control offers: its own, else the field's; None where there is none."""
    least = most = None
    for bound in field.metadata:
        match bound:
            case Ge(ge=int() | float() as end):
                least = end
            case Gt(gt=int() | float() as end):
                least = end + step
            case Le(le=int() | float() as end):
                most = end
            case Lt(lt=int() | float() as end):
                most = end - step
    return least if control.least is None else control.least, most if control.most is None else control.most
