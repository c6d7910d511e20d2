"""Advice as events, for a page that shows how far it is and then what was found."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from draftscope.advise.question import Question
from draftscope.base.prompts import Prompt
from draftscope.base.steps import mapped

if TYPE_CHECKING:
    from draftscope.advise.probe import Watch
    from draftscope.advise.report import Advised
    from draftscope.decode.engine import DecodingEngine


@dataclass(frozen=True)
class Asked:
    """A question, prompts by kind, and the drafters to compare; all that can run if none is named."""

    question: Question = field(default_factory=Question)
    prompts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    drafters: tuple[str, ...] = ()


def advised(engine: DecodingEngine, request: Asked, watch: Watch) -> Iterator[Advised | None]:
    """The events of an advice; None where there is nothing new to say. A timed run is never interrupted for others:
    within one `watch` is called every round, and may raise `Cancelled`."""
    from draftscope.advise.advise import advising
    from draftscope.advise.report import Advised

    prompts = {kind: [Prompt(kind, text) for text in texts] for kind, texts in request.prompts.items()}
    before = Advised()

    def unless_said(now: Advised) -> Advised | None:
        nonlocal before
        same, before = (before.stage, before.done) == (now.stage, now.done), now
        return None if same else now

    report = yield from mapped(advising(engine, request.question, prompts, request.drafters, watch=watch), unless_said)
    yield Advised(report=json.loads(report.as_json()))
