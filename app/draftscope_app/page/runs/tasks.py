"""The comparison of all drafters, the check of one, audits and loads of servers: as jobs, and as the page's answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from draftscope.base.errors import DraftscopeError
from draftscope.trace.events import AnyEvent, RunStart
from draftscope_app.engine.handle import RunHandle
from draftscope_app.engine.interface import Engine
from draftscope_app.engine.messages import DrafterChoice, Happened, Job, Noted, Refused
from draftscope_app.engine.sessions import Answer, Visitor, new_run_id
from draftscope_app.page.controls import Controls, checked, lanes
from draftscope_app.page.runs.feed import PERIOD_S, standing

Kind = Literal["compare", "check", "audit", "load"]
OTHER_TOKENIZER = ("slem", "tli")  # drafters for a draft model with another tokenizer
REPEATS = 3  # whole runs of each drafter in a comparison
SAMPLES = 2048  # of each distribution test, as on the command line


def comparison(controls: Controls, drafters: Sequence[DrafterChoice], most_tokens: int) -> Job:
    """Plain decoding and every available drafter, each with those of these settings that it reads."""
    able = [d for d in drafters if d.available and d.name != "plain" and (d.name != "typed" or controls["typed"])]
    if any(d.name == "draft" for d in able):  # the draft has the target's tokenizer
        able = [d for d in able if d.name not in OTHER_TOKENIZER]
    if not able:
        raise DraftscopeError("There is no drafter to compare yet; wait until the engine has loaded its models.")
    chosen = [lanes({**controls, "drafter": d.name}, d, most_tokens) for d in able]
    plain = chosen[0][0]
    named = tuple((str(values["drafter"]), values) for _, (_, values) in chosen)
    return Job(new_run_id(), controls["prompt"], (plain, *named), compares=REPEATS)


def check(events: Sequence[AnyEvent]) -> Job:
    """The check of the shown run's drafter and rule."""
    starts = [event for event in events if isinstance(event, RunStart) and event.drafter != "plain"]
    if not starts:
        raise DraftscopeError("Nothing was drafted in this run, so there is nothing to check; choose another drafter.")
    start = starts[0]
    names = ("rule", "lenience", "agreement", "draft_length", "confidence", "seed")
    values = {"drafter": start.drafter} | {name: start.settings[name] for name in names if name in start.settings}
    return Job(new_run_id(), start.prompt, (checked("check", values),), checks=SAMPLES)


def about(job: Job) -> dict[str, Any]:
    """The settings of a comparison or a check, shown beside its answer."""
    values = job.lanes[0][1]
    return {
        "prompt": job.prompt[:200],
        "temperature": values.get("temperature", 0),
        "top_k": values.get("top_k", 0),
        "top_p": values.get("top_p", 1),
        "min_p": values.get("min_p", 0),
        "seed": values.get("seed", 0),
        "tokens": values.get("max_new_tokens"),
        "lanes": len(job.lanes),
        "repeats": job.compares,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    } | ({"asked": values} if job.checks else {})


async def answers(kind: Kind, engine: Engine, visitor: Visitor, handle: RunHandle) -> AsyncIterator[str]:
    """The whole answer so far, each time that it grows; so a delta that a page has missed comes with the next one.

    Until it is over or another reader takes its place. A reader who leaves ends it, if nobody comes back in time; who
    comes back is continued with what was answered meanwhile.
    """
    answer = visitor.answer
    if answer is None or answer.run != handle.job.run:
        answer = visitor.answer = Answer(handle.job.run, kind, about(handle.job))
    last, reader = "", object()
    handle.reader = reader
    try:
        while handle.reader is reader:
            changes = engine.changed.count
            over = handle.over  # read before the messages, so that none is left
            _take(answer, handle)
            now = f"{standing(engine, handle)} {answer.heard} {answer.note} {answer.aside}"
            if now != last:
                last = now
                yield told(answer, engine.place(handle))
            if over:
                return
            await asyncio.sleep(PERIOD_S)
            await engine.changed.wait(changes)
    finally:
        if handle.reader is reader:
            handle.unread(visitor.keep_s)


def _take(answer: Answer, handle: RunHandle) -> None:
    """Adds what has happened since the last time."""
    messages = handle.drain()
    fresh = [message.line for message in messages if isinstance(message, Happened)]
    if answer.kind == "compare":
        answer.lines += fresh
    else:
        answer.lines = fresh[-1:] or answer.lines  # the latest event of the others says it all
    answer.heard += len(fresh)
    answer.note = next((message.sentence for message in messages if isinstance(message, Refused)), answer.note)
    answer.aside = next((message.sentence for message in messages if isinstance(message, Noted)), answer.aside)
    answer.state = handle.state


def told(answer: Answer, place: int = 0) -> str:
    """The answer as one delta; the events are passed on as the engine wrote them."""
    seq = json.dumps(new_run_id())
    head = json.dumps({"state": answer.state, "place": place, "about": answer.about, "note": answer.note})[:-1]
    aside = "" if answer.aside is None else f', "note": {json.dumps(answer.aside)}'
    return f'{{"seq": {seq}, "{answer.kind}": {head}, "ev": [{",".join(answer.lines)}]}}{aside}}}'
