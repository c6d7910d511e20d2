"""A page whose engine takes no job: what it says when something is pressed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import gradio as gr
import pytest

from draftscope_app.engine.admission import Admission
from draftscope_app.engine.config import Limits
from draftscope_app.engine.jobs import DrafterChoice, EngineStatus
from draftscope_app.engine.notice import Notice
from draftscope_app.engine.visitors import Visitors
from draftscope_app.page.controls import defaults
from draftscope_app.page.shared import Shared

MOST = 60_000  # characters


class NoEngine:
    """Takes no job."""

    status = EngineStatus("ready", "stand-in", (DrafterChoice("ngram", "n-grams", True, True, "", ("gamma",)),))
    changed = Notice()

    def __len__(self) -> int:
        return 0

    def run(self, *job: Any) -> Any:
        pytest.fail(str(job))


def bare_page() -> tuple[Shared, dict[str, Any]]:
    """A page, and its controls."""
    admission = Admission(NoEngine(), Limits(max_text=MOST))  # type: ignore[arg-type]
    return Shared(admission, Visitors(), defaults(), ()), {name: object() for name in defaults()}


def first_note(listener: Any, controls: dict[str, Any], prompt: str, *event: Any) -> str:
    """What the page says first to this prompt."""
    values = {controls[name]: value for name, value in (defaults() | {"prompt": prompt, "drafter": "ngram"}).items()}

    async def first() -> str:
        return str(await anext(aiter(listener(values, *event, gr.Request(session_hash="a")))))

    return str(json.loads(asyncio.run(first()))["note"])
