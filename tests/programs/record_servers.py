"""Records the race and the audits that the lesson about servers shows.

    python -m tests.programs.record_servers --server plain=URL --server drafts=URL

The servers run already (`draftscope servers` prints how to start them), the plain one first. They serve the target, and
draft with the draft model, that are loaded here. The race becomes assets/lessons/servers.jsonl.gz, and how each
server's audit ended a line of servers.audits.jsonl.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from draftscope import load
from draftscope.base.assets import assets
from draftscope.base.steps import said
from draftscope.decode.engine import DecodingEngine
from draftscope.servers import lanes as entries
from draftscope.servers.adapter import Request
from draftscope.servers.audit.audit_events import AuditProgress
from draftscope.servers.audit.plan import Plan
from draftscope.servers.field import Field
from draftscope.servers.server_race import Race, RaceLane
from draftscope.trace import files
from draftscope.trace.events import AnyEvent
from draftscope_app.doors.learn.lessons import page as lessons
from draftscope_app.page.bundle import presets
from draftscope_app.page.runs import recorded

LESSONS = assets() / "lessons"
NAME = "servers"
KIND = "story"  # of the race's prompt
TOKENS, REPEATS = 48, 3
PLAN = Plan()


def record(
    engine: DecodingEngine, lanes: Sequence[RaceLane], plan: Plan = PLAN
) -> tuple[list[AnyEvent], list[AuditProgress]]:
    """The race at temperature 1, and the last event of each server's audit."""
    field = Field(lanes, {}, engine, engine.draft)
    prompts = field.prompts(presets()[KIND][:1], True, TOKENS)
    race = Race(prompts, Request(prompts[0].ids, TOKENS, temperature=1.0), REPEATS, field.jitter)
    events: list[AnyEvent] = list(said(field.race(race, NAME)))
    return events, [_audited(replace(field, lanes=[lane]), plan) for lane in lanes]


def _audited(field: Field, plan: Plan) -> AuditProgress:
    *_, ended = said(field.audit(plan))
    return ended


def main(
    server: Annotated[list[str], typer.Option(metavar="NAME=URL", help="a server that runs, the plain one first")],
    target: Annotated[str | None, typer.Option(metavar="MODEL", help="default: the embedded pair")] = None,
    draft: Annotated[str | None, typer.Option(metavar="MODEL", help="what the servers draft with")] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="folder of the lessons")] = LESSONS,
) -> None:
    """Record the race and the audits of the lesson about servers."""
    with ExitStack() as opened:
        engine = opened.enter_context(load(target, draft))
        field = opened.enter_context(Field.open(entries.parse_servers(server), engine))
        events, audits = record(engine, field.lanes)
    files.write(out / f"{NAME}{recorded.SUFFIX}", events)
    lines = "".join(f"{each.model_dump_json()}\n" for each in audits)
    (out / f"{NAME}{lessons.AUDITS}").write_text(lines, encoding="utf-8")
    for each in audits:
        print(f"{each.server}: {each.verdict}")


if __name__ == "__main__":
    typer.run(main)
