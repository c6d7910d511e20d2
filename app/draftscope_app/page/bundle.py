"""The script that the page puts into its head: the instrument, and what the page's own controls need."""

from __future__ import annotations

from draftscope.base.prompts import select, shipped
from draftscope.trace import html
from draftscope_app.page import controls
from draftscope_app.page.runs import lessons


def script(network: str = "", chat: bool = False) -> str:
    """One classic script behind one name, `Draftscope`. `network` is the page's address for other machines, if any.
    `chat`: the target is expected to answer in a chat, until the engine has said whether it does.
    """
    both = {"chat": presets(chat=True), "text": presets()}
    return html.script(
        presets=both, chat=chat, lessonNames=lessons.names(), metrics=lessons.meanings(), labels=controls.labels(),
        network=network, classes=True,
    )  # fmt: skip


def presets(chat: bool = False) -> dict[str, list[str]]:
    """Kind of text -> prompts: texts to continue, or questions for a `chat` model. The kinds are the same."""
    return {kind: [prompt.text for prompt in prompts] for kind, prompts in select(shipped(chat)).items()}
