"""What a visitor asks for beside runs: all drafters compared, and the check of one; from the question to the answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal

from draftscope.base.errors import DraftscopeError
from draftscope.trace.events import AnyEvent, RunStart
from draftscope_app.page.controls import Controls, checked, lanes
from draftscope_app.engine.process import EngineProcess, RunHandle
from draftscope_app.page.runs.feed import PERIOD_S, standing
from draftscope_app.engine.messages import DrafterChoice, Happened, Job, Refused
from draftscope_app.engine.sessions import new_run_id

REPEATS = 3  # whole runs of each drafter in a comparison
Kind = Literal["compare", "check"]
SAMPLES = 2048  # of each distribution test, as on the command line


def comparison(controls: Controls, drafters: Sequence[DrafterChoice], most_tokens: int) -> Job:
    """Plain and every drafter that can run here, each with what it reads of these settings."""
    able = [d for d in drafters if d.available and d.name != "plain" and (d.name != "typed" or controls.typed)]
    if not able:
        raise DraftscopeError("There is no drafter to compare yet; wait until the engine has loaded its models.")
    chosen = [lanes(replace(controls, drafter=d.name), d, most_tokens) for d in able]
    plain = chosen[0][0]
    named = tuple((str(values["drafter"]), values) for _, (_, values) in chosen)
    return Job(new_run_id(), controls.prompt or "", (plain, *named), compares=REPEATS)


def check(events: Sequence[AnyEvent]) -> Job:
    """The check of the drafter and the rule that the shown run had."""
    starts = [event for event in events if isinstance(event, RunStart) and event.drafter != "plain"]
    if not starts:
        raise DraftscopeError("Nothing was drafted in this run, so there is nothing to check; choose another drafter.")
    start = starts[0]
    names = ("rule", "lenience", "agreement", "seed")
    values = {"drafter": start.drafter} | {name: start.settings[name] for name in names if name in start.settings}
    return Job(new_run_id(), start.prompt, (checked("check", values),), checks=SAMPLES)


def about(job: Job) -> dict[str, Any]:
    """What a comparison or a check was of, for whoever reads it later."""
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


async def answers(kind: Kind, engine: EngineProcess, handle: RunHandle) -> AsyncIterator[str]:
    """All that is known so far, again whenever more is: what a page has missed comes with the next."""
    events: list[str] = []
    told, shown, note = about(handle.job), "", ""
    try:
        while True:
            over = handle.done
            messages = handle.drain()
            events += [message.line for message in messages if isinstance(message, Happened)]
            note = next((message.sentence for message in messages if isinstance(message, Refused)), note)
            state = f"{standing(engine, handle)} {len(events)} {note}"
            if state != shown:
                shown = state
                answer = {"state": handle.state, "place": engine.place(handle), "about": told, "note": note}
                yield _told(kind, answer, events)
            if over:
                return
            await asyncio.sleep(PERIOD_S)
    finally:
        handle.stop()


def _told(kind: Kind, answer: dict[str, Any], events: Sequence[str]) -> str:
    """One delta; the events are passed on as the engine process wrote them."""
    seq, head = json.dumps(new_run_id()), json.dumps(answer)[:-1]
    return f'{{"seq": {seq}, "{kind}": {head}, "ev": [{",".join(events)}]}}}}'
