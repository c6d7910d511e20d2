"""The script that the page puts into its head: the instrument, and what the page's own controls need."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from draftscope.base.prompts import select, shipped
from draftscope.trace import html
from draftscope.trace.glossary import GLOSSARY
from draftscope_app.page import controls


def script(network: str = "", chat: bool = False, cards: Mapping[str, Path] | None = None, **more: Any) -> str:
    """One classic script behind one name, `Draftscope`. `network` is the page's address for other machines, if any.
    `chat`: the target is expected to answer in a chat, until the engine has said whether it does. `cards` are those of
    the tasks, mount -> folder; `more` is handed over to the instrument too.
    """
    both = {"chat": presets(chat=True), "text": presets()}
    metrics = {entry.name: entry.meaning for entry in GLOSSARY}
    return html.script(
        cards, presets=both, chat=chat, metrics=metrics, labels=controls.labels(), network=network, **more
    )


def presets(chat: bool = False) -> dict[str, list[str]]:
    """Kind of text -> prompts: texts to continue, or questions for a `chat` model. The kinds are the same."""
    return {kind: [prompt.text for prompt in prompts] for kind, prompts in select(shipped(chat)).items()}
