"""Records the race and the audits that the lesson about servers shows.

    python -m tests.programs.record_servers --server plain=URL --server drafts=URL

The servers run already (`draftscope servers` prints how to start them), the plain one first. They serve the target, and
draft with the draft model, that are loaded here. The race becomes assets/lessons/servers.jsonl.gz, and how each
server's audit ended a line of servers.audits.jsonl.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from draftscope import load
from draftscope.base.assets import assets
from draftscope.base.steps import said
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.prompt import read_prompt
from draftscope.models.loading.chat import Chat
from draftscope.servers import lanes as entries
from draftscope.servers.adapter import Request
from draftscope.servers.audit import told
from draftscope.servers.audit.asked import Plan
from draftscope.servers.audit.audit import Report, Watch, audit
from draftscope.servers.audit.greedy import GREEDY_TOKENS
from draftscope.servers.audit.prompts import AUDIT_PROMPTS
from draftscope.servers.audit.told import AuditTold
from draftscope.servers.latency import loopback_jitter
from draftscope.servers.race import Lane, Race
from draftscope.servers.traced import Traced, traced
from draftscope.servers.wire import Limits
from draftscope.trace import files
from draftscope.trace.events import AnyEvent
from draftscope_app.page.bundle import presets
from draftscope_app.page.runs import lessons

LESSONS = assets() / "lessons"
NAME = "servers"
KIND = "story"  # of the race's prompt
TOKENS, REPEATS = 48, 3
PLAN = Plan()


def record(engine: DecodingEngine, lanes: Sequence[Lane], plan: Plan = PLAN) -> tuple[list[AnyEvent], list[AuditTold]]:
    """The race at temperature 1, and the last event of each server's audit."""
    prompt = entries.prompts(presets()[KIND][:1], lanes, engine, True, TOKENS)[0]
    asked = Race([prompt], Request(prompt.ids, TOKENS, temperature=1.0), REPEATS, loopback_jitter())
    events: list[AnyEvent] = list(said(traced(Traced(NAME, lanes, {}, asked, engine, engine.draft))))
    return events, [_audited(engine, lane, plan) for lane in lanes]


def _audited(engine: DecodingEngine, lane: Lane, plan: Plan) -> AuditTold:
    about = lane.server.identity
    ids = [
        tuple(read_prompt(engine, text, max(plan.tokens, GREEDY_TOKENS), Chat(raw=True))[1]) for text in AUDIT_PROMPTS
    ]

    def run(watch: Watch) -> Report:
        return audit(lane.server, about.kind, engine, AUDIT_PROMPTS, ids, plan, None, watch, about.sentence)

    start = told.first(lane.name, " ".join(filter(None, (about.kind, about.version))), engine.target.name, plan)
    *_, last = said(told.told(start, run))
    return last


def main(
    server: Annotated[list[str], typer.Option(metavar="NAME=URL", help="a server that runs, the plain one first")],
    target: Annotated[str | None, typer.Option(metavar="MODEL", help="default: the embedded pair")] = None,
    draft: Annotated[str | None, typer.Option(metavar="MODEL", help="what the servers draft with")] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="folder of the lessons")] = LESSONS,
) -> None:
    """Record the race and the audits of the lesson about servers."""
    with ExitStack() as opened:
        engine = opened.enter_context(load(target, draft))
        lanes, _ = entries.connect(entries.chosen(server), {}, Limits(), opened.enter_context)
        events, audits = record(engine, lanes)
    files.write(out / f"{NAME}{lessons.SUFFIX}", events)
    lines = "".join(f"{each.model_dump_json()}\n" for each in audits)
    (out / f"{NAME}{lessons.AUDITS}").write_text(lines, encoding="utf-8")
    for each in audits:
        print(f"{each.server}: {each.verdict}")


if __name__ == "__main__":
    typer.run(main)
