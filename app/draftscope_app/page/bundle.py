"""The script that the page puts into its head: the instrument, and what the page's own controls need."""

from __future__ import annotations

import json

from draftscope.base.assets import assets
from draftscope.trace import html
from draftscope_app.page import controls
from draftscope_app.page.runs import lessons


def script(network: str = "") -> str:
    """One classic script behind one name, `Draftscope`. `network` is the page's address for other machines, if any."""
    return html.script(
        presets=presets(), lessonNames=lessons.names(), metrics=lessons.meanings(), labels=controls.labels(),
        network=network,
    )  # fmt: skip


def presets() -> dict[str, list[str]]:
    """Kind of text -> prompts."""
    loaded: dict[str, list[str]] = json.loads((assets() / "prompts.json").read_text(encoding="utf-8"))
    return loaded
