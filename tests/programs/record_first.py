"""Records the run that the page shows before any model is loaded: `python -m tests.programs.record_first`.

A race of the models that a server opens on, with the settings that the page opens with, and the solo runs behind its
headline, as a trace.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from draftscope import load
from draftscope.base.assets import assets
from draftscope.base.steps import said
from draftscope.decode.race import race, solo_runs, verify_costs
from draftscope.models.loading.known import known
from draftscope.trace import files
from draftscope_app.engine.opening_models import OPENS_ON
from draftscope_app.page import controls, opening_settings

FIRST = assets() / "traces" / "first.jsonl.gz"


def record(
    out: Annotated[Path, typer.Option(metavar="FILE", help="where the trace goes")] = FIRST,
    target: Annotated[str, typer.Option(metavar="MODEL", help="default: what a server opens on")] = OPENS_ON,
    draft: Annotated[str | None, typer.Option(metavar="MODEL", help="draft model")] = None,
    tokens: Annotated[int, typer.Option(help="tokens to write")] = opening_settings.TREE["max_new_tokens"],
) -> None:
    """Record the run that the page opens with."""
    chosen = (
        controls.defaults() | opening_settings.settings(chat=known(target) is not None) | {"max_new_tokens": tokens}
    )
    prompt = chosen["prompt"]
    engine = load(target, draft)
    lanes = controls.lanes(chosen, None)
    runs = [engine.start(prompt, settings, run="first", lane=lane) for lane, settings in lanes.items()]
    events = list(race(runs))
    events += said(solo_runs(engine, prompt, lanes, "first", repeats=5))
    events += said(verify_costs(engine, lanes, "first"))
    files.write(out, events)
    print(f"{out}: {len(events)} events, {out.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    typer.run(record)
