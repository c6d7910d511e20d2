"""Other models that a visitor loads: known pairs, a form for others, what they ask the engine for, and the progress."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import gradio as gr

from draftscope.base.admit import admit
from draftscope.base.assets import cache_folder
from draftscope.base.errors import DraftscopeError
from draftscope.base.load_settings import LoadSettings
from draftscope.drafters.catalog import DRAFT_MODEL, PAIRS, THROUGH_TEXT
from draftscope.models.files import hub
from draftscope.models.loading.embedded import PAIR
from draftscope.models.loading.known import KNOWN, KnownModel
from draftscope_app.engine.answers import Engine, watch
from draftscope_app.engine.jobs import EngineStatus
from draftscope_app.page import notes

HEAD = "To plug in a trained head, start with: draftscope serve --target MODEL --drafter eagle3:HEAD"
OPEN = "document.querySelector('#ds-other-models').classList.add('ds-open')"
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


@dataclass(frozen=True)
class Offer:
    """A pair to choose from the list: the names to load, and what its line says."""

    target: str
    draft: str
    title: str
    about: str


def offers() -> list[Offer]:
    """The pairs that a page can load by name, those on this machine first."""
    here = [Offer(PAIR, "", "The embedded pair", "comes with the project")]
    away: list[Offer] = []
    for model in KNOWN:
        is_here = _is_here(model)
        size = "on this machine" if is_here else f"{model.wheel.size / 1e6:.0f} MB to download"
        about = f"with its EAGLE-3 head and draft model, {size}"
        (here if is_here else away).append(Offer(model.name, "", model.title, about))
    for pair in PAIRS:
        if pair.kind not in (DRAFT_MODEL, THROUGH_TEXT):
            continue  # heads are named on the command line
        is_cached = all(hub.cached(name, None) is not None for name in (pair.target, pair.drafter))
        licence = ", a licence to accept first" if pair.gated else ""
        size = "on this machine" if is_cached else f"to download{licence}"
        about = f"drafts: {_short(pair.drafter)}, {pair.gb:.0f} GB {size}"
        (here if is_cached else away).append(Offer(pair.target, pair.drafter, _short(pair.target), about))
    return here + away


def _is_here(model: KnownModel) -> bool:
    """As `sources.is_here`, which imports torch: a page's process never does."""
    kept = (cache_folder() / "models").glob(f"{model.wheel.sha256[:8]}*")
    return any(kept) or hub.cached(model.repository, None) is not None


def _short(name: str) -> str:
    return name.split("/")[-1]


def form() -> Form:
    """The list of known pairs, a press on which writes their names into the fields; these stand behind a button."""
    with gr.Column(elem_id="ds-pairs"):
        chosen = [(offer, gr.Button(f"{offer.title} · {offer.about}", size="sm")) for offer in offers()]
    other = gr.Button("Another model", size="sm", elem_id="ds-another")
    other.click(None, None, None, js=f"() => {{ {OPEN}; }}")
    with gr.Column(elem_id="ds-other-models"):
        built = Form(
            gr.Textbox(label="Target", placeholder="hub id, folder, GGUF file; empty: embedded", elem_id="ds-target"),
            gr.Textbox(label="Draft model", placeholder="hub id or folder; empty: none", elem_id="ds-draft"),
            gr.Textbox(label="Revision of the target", placeholder="empty: the default", elem_id="ds-revision"),
            gr.Button("Load these models", size="sm", elem_id="ds-load-models"),
        )
        notes.html(notes.muted(HEAD))
    for offer, button in chosen:
        names = json.dumps([offer.target, offer.draft, ""])
        button.click(None, None, built.fields, js=f"() => {{ {OPEN}; return {names}; }}")
    return built


def wanted(base: LoadSettings, target: str, draft: str, revision: str) -> LoadSettings:
    """What the server loads for these names, otherwise as it was started. Whatever the server itself may read, a page
    never gets it to unpickle a file or to run a repository's code."""
    admit({"target": target, "draft": draft, "revision": revision}, MAX_NAME)
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
    """The engine's status, which says how far it is, until the models are loaded or could not be."""
    engine.change(load)
    async for status in watch(engine.changed, lambda: engine.status):
        yield status
        if status.phase != "loading":
            return
