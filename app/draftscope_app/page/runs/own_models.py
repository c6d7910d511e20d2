"""Other models that a visitor loads: a small form, what it asks the engine for, and the progress of loading."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import gradio as gr

from draftscope.base.errors import DraftscopeError
from draftscope.base.load_settings import LoadSettings
from draftscope.models.loading.embedded import PAIR
from draftscope.models.loading.known import KNOWN
from draftscope_app.engine.admission import refuse_long
from draftscope_app.engine.answers import Engine, watch
from draftscope_app.engine.jobs import EngineStatus
from draftscope_app.page import notes

HEAD = "To plug in a trained head, start with: draftscope serve --target MODEL --drafter eagle3:HEAD"
PERIOD_S = 1.0  # between two sentences that count the seconds
MAX_NAME = 500  # characters of a hub id, a folder or a revision


@dataclass(frozen=True)
class Form:
    """The fields, and the button."""

    target: gr.Textbox
    draft: gr.Textbox
    revision: gr.Textbox
    load: gr.Button

    @property
    def fields(self) -> list[gr.Textbox]:
        return [self.target, self.draft, self.revision]


def form() -> Form:
    """Where the models are named. A button for each known one writes its name into the field."""
    with gr.Column(elem_id="ds-other-models"):
        target = gr.Textbox(
            label="Target",
            placeholder="hub id, folder, GGUF file; empty: embedded",
            elem_id="ds-target",
        )
        with gr.Row(elem_id="ds-known"):
            for model in KNOWN:
                choose = gr.Button(model.title, size="sm")
                choose.click(None, None, target, js=f"() => {json.dumps(model.name)}")
        built = Form(
            target,
            gr.Textbox(label="Draft model", placeholder="hub id or folder; empty: none", elem_id="ds-draft"),
            gr.Textbox(label="Revision of the target", placeholder="empty: the default", elem_id="ds-revision"),
            gr.Button("Load these models", size="sm", elem_id="ds-load-models"),
        )
        notes.html(notes.muted(HEAD))
    return built


def wanted(base: LoadSettings, target: str, draft: str, revision: str) -> LoadSettings:
    """What the server loads for these names, otherwise as it was started. Whatever the server itself may read, a page
    never gets it to unpickle a file or to run a repository's code."""
    refuse_long({"target": target, "draft": draft, "revision": revision}, MAX_NAME)
    names = [str(text or "").strip() for text in (target, draft, revision)]
    if names[2] and not names[0]:
        raise DraftscopeError(f"revision = '{names[2]}', but no target is named; name one, or leave it out.")
    return replace(
        base,
        target=names[0] or PAIR,
        draft=names[1] or None,
        revision=names[2] or None,
        draft_revision=None,
        heads=(),
        emulate=None,
        trust_remote_code=False,
        allow_pickle=False,
    )


async def changes(engine: Engine, load: LoadSettings) -> AsyncIterator[EngineStatus]:
    """The engine's status, with the seconds so far, until the models are loaded or could not be."""
    engine.change(load)
    began = time.monotonic()

    def read() -> EngineStatus:
        status, so_far = engine.status, f"{time.monotonic() - began:.0f} s so far."
        return replace(status, sentence=f"{status.sentence} {so_far}") if status.phase == "loading" else status

    async for status in watch(engine.changed, read, PERIOD_S):
        yield status
        if status.phase != "loading":
            return
