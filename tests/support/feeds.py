"""A run as its visitor's page gets it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from draftscope_app.engine.answers import Answer, Engine
from draftscope_app.engine.visitors import Visitor
from draftscope_app.page.runs.feed import RunFeed
from draftscope_app.page.shared import shown


def stream(engine: Engine, visitor: Visitor, answer: Answer) -> AsyncIterator[str]:
    """The deltas of its run, from its beginning to its end."""
    return shown(engine, visitor, answer, RunFeed(visitor))
