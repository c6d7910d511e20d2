"""What was recorded of servers of other programs: a race, a load test, and audits."""

from __future__ import annotations

import json
from typing import Any

from draftscope.base.assets import assets
from draftscope.trace.files import line
from draftscope_app.page.runs import recorded

RACE = "servers"  # a lesson's run
LOAD = assets() / "results" / "2026-11-23-server-load" / "vllm-cpu.json"


def recorded_servers() -> dict[str, Any]:
    """By the name of the file: events of the race in JSON, the load test, and the audits."""
    race = ",".join(map(line, recorded.events(RACE))) if RACE in recorded.names() else ""
    audits = recorded.FOLDER / f"{RACE}.audits.jsonl"
    written = audits.read_text(encoding="utf-8").splitlines() if audits.exists() else []
    load = json.loads(LOAD.read_text(encoding="utf-8")) if LOAD.exists() else None
    return {"servers": {"race": race, "audits": [json.loads(text) for text in written], "load": load}}
