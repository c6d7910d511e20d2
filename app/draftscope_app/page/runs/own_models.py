"""Models that a visitor brings: a small form, what it asks the engine for, and the loading told as it goes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import gradio as gr

from draftscope.base.errors import DraftscopeError
from draftscope_app.engine.process import EngineProcess
from draftscope_app.engine.messages import Engine, Load

PERIOD_S = 0.1


@dataclass(frozen=True)
class Form:
    """What is filled in, and the button."""

    target: gr.Textbox
    draft: gr.Textbox
    revision: gr.Textbox
    load: gr.Button

    @property
    def fields(self) -> list[gr.Textbox]:
        return [self.target, self.draft, self.revision]


def form() -> Form:
    """A drawer below the controls."""
    with gr.Accordion("Other models", open=False, elem_id="ds-models"):
        return Form(
            gr.Textbox(
                label="Target", placeholder="hub id, folder or experts; empty: the embedded pair", elem_id="ds-target"
            ),
            gr.Textbox(label="Draft model", placeholder="hub id, folder or experts-draft; or none", elem_id="ds-draft"),
            gr.Textbox(label="Revision of the target", placeholder="the hub's default", elem_id="ds-revision"),
            gr.Button("Load these models", size="sm", elem_id="ds-load-models"),
        )


def wanted(base: Load, target: str, draft: str, revision: str) -> Load:
    """What the server loads for these names. How it loads stays the server's own; remote code is never run."""
    names = [(text or "").strip() for text in (target, draft, revision)]
    if names[2] and not names[0]:
        raise DraftscopeError(f"revision = '{names[2]}', but no target is named; name one, or leave it out.")
    return replace(
        base,
        target=names[0] or None,
        draft=names[1] or None,
        revision=names[2] or None,
        draft_revision=None,
        heads=(),
        ballast=None,
        trust_remote_code=False,
    )


async def changes(engine: EngineProcess, load: Load) -> AsyncIterator[Engine]:
    """The engine's state until the models are there or were refused, with the seconds that it has taken."""
    engine.change(load)
    began, said = time.monotonic(), ""
    while (status := engine.status).phase == "loading":
        sentence = f"{status.sentence} {time.monotonic() - began:.0f} s so far."
        if sentence != said:
            said = sentence
            yield replace(status, sentence=sentence)
        await asyncio.sleep(PERIOD_S)
    yield status
