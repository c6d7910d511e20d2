"""Controls that work in the browser alone: prompts by kind, which settings are shown, the link, the theme.

Answers from the server could arrive in another order.
"""

from __future__ import annotations

import json
import os

import gradio as gr

from draftscope_app.page import opening_settings
from draftscope_app.page.controls import FIRST_READS, Controls, names, options, visible_if
from draftscope_app.page.layout import Widgets


def attach(widgets: Widgets, defaults: Controls, query: str) -> None:
    """`query` is the JavaScript that makes an address of the controls' `values`."""
    prompt, values = widgets.controls["prompt"], widgets.values
    for kind, button in widgets.kinds.items():
        button.click(None, prompt, prompt, js=f"(prompt) => Draftscope.preset({json.dumps(kind)}, prompt)")
    for name, button in widgets.examples.items():
        wanted = json.dumps([opening_settings.examples(chat)[name] for chat in (False, True)])
        button.click(
            None, values, values, js=f"(...values) => Draftscope.example({json.dumps(names())}, values, {wanted})"
        )
    widgets.instrument.set(
        None, values, values, js=f"(...values) => Draftscope.attempted({json.dumps(names())}, values)"
    )
    _attach_visibility(widgets, defaults)
    changes = [widget.change for widget in values]  # type: ignore[attr-defined]
    gr.on(changes, None, values, None, js=f"(...values) => Draftscope.changed({json.dumps(names())}, values)")
    space = json.dumps(os.environ.get("SPACE_ID", ""))
    named = query.removesuffix(")") + ", ['prompt', 'drafter'])"  # a link names both, whatever opens by default there
    widgets.link.click(None, values, None, js=f"(...values) => Draftscope.copyLink({named}, {space}, values[0])")
    widgets.theme.click(None, None, None, js="() => { Draftscope.flipTheme(); }")


def _attach_visibility(widgets: Widgets, defaults: Controls) -> None:
    """Only the settings that the chosen drafter reads are shown."""
    option_widgets = [widgets.controls[name] for name in options()]
    choosing = list(dict.fromkeys(["drafter", *(other for other, _ in visible_if().values())]))
    first = {name: defaults[name] for name in choosing}
    rules = json.dumps(
        {"names": list(options()), "visibleIf": visible_if(), "first": first, "reads": list(FIRST_READS)}
    )
    for name in choosing:
        widgets.controls[name].change(  # type: ignore[attr-defined]
            None, widgets.controls[name], option_widgets, js=f"(value) => Draftscope.show({rules}, {{ {name}: value }})"
        )
    messages = widgets.messages
    messages.change(None, messages, option_widgets, js=f"(message) => Draftscope.readEngine({rules}, message)")
    both = json.dumps([{**defaults, **opening_settings.settings(chat=chat)} for chat in (False, True)])
    messages.change(
        None, [messages, *widgets.values], widgets.values,
        js=f"(message, ...values) => Draftscope.opened({json.dumps(names())}, message, values, {both})",
    )  # fmt: skip
