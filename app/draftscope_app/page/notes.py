"""What a card says: how far a measurement is, and why there is no result. A sentence is text, and markup
only where it is `Markup`."""

from __future__ import annotations

from typing import Any

import gradio as gr
from markupsafe import Markup

OPENS = '<button type="button" class="ds-opens" aria-expanded="false" aria-controls="{0}" data-opens="{0}">{1}</button>'


def html(value: str | None = None, name: str | None = None, js: str | None = None, **more: Any) -> gr.HTML:
    """Markup in the page's own style; `name` is its id, `js` is run when it is there."""
    return gr.HTML(value=value, apply_default_css=False, elem_id=name, js_on_load=js, **more)


def progress(sentence: str, share: float | None) -> Markup:
    """A sentence above a bar; `share` None is not known."""
    value = "" if share is None else Markup(' value="{:.3f}"').format(min(max(share, 0.0), 1.0))
    return Markup('<p role="status">{}</p><progress{} aria-label="Measuring"></progress>').format(sentence, value)


def refused(sentence: str) -> Markup:
    return Markup('<p role="alert">{}</p>').format(sentence)


def muted(sentence: str) -> Markup:
    return Markup('<p class="ds-muted">{}</p>').format(sentence)
