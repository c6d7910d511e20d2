"""Advice as events, for a page that shows how far it is and then what was found."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from draftscope.advise.question import Question
from draftscope.base.prompts import Prompt
from draftscope.base.steps import mapped
from draftscope.trace.events import Record

if TYPE_CHECKING:
    from draftscope.advise.advise import AdviceProgress
    from draftscope.advise.probe import Watch
    from draftscope.decode.engine import DecodingEngine


@dataclass(frozen=True)
class Asked:
    """A question, prompts by kind, and the drafters to compare; all that can run if none is named."""

    question: Question = field(default_factory=Question)
    prompts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    drafters: tuple[str, ...] = ()


class Advised(Record):
    """How far it is; the last one has the report, as `draftscope advise --json` prints it."""

    kind: Literal["advised"] = "advised"
    stage: str = ""  # what is measured
    done: int = 0  # per cent of the costs, prompts, or runs
    left_s: float | None = None  # at most; absent until it is known how long the costs take
    so_far: str = ""  # what the runs say until now
    ratio: dict[str, float] | None = None  # the same as numbers: median, low and high
    report: dict[str, Any] | None = None


def advised(engine: DecodingEngine, request: Asked, watch: Watch) -> Iterator[Advised | None]:
    """The events of an advice; None where there is nothing new to say. A timed run is never interrupted for others:
    within one `watch` is called every round, and may raise `Cancelled`."""
    from draftscope.advise.advise import advising

    prompts = {kind: [Prompt(kind, text) for text in texts] for kind, texts in request.prompts.items()}
    said: tuple[Any, ...] = ()

    def to_event(progress: AdviceProgress) -> Advised | None:
        nonlocal said
        before, said = said, (progress.stage, progress.done)
        if said == before:
            return None
        return Advised(
            stage=progress.stage.name.lower(), done=progress.done, left_s=progress.left_s, so_far=progress.so_far,
            ratio=asdict(progress.ratio) if progress.ratio else None,
        )  # fmt: skip

    report = yield from mapped(advising(engine, request.question, prompts, request.drafters, watch=watch), to_event)
    yield Advised(report=json.loads(report.as_json()))
