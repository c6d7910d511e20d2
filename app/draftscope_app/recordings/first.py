"""Records the run that the page shows before any model is loaded: `python -m draftscope_app.recordings.first`.

A greedy race of the embedded pair on the prompt that the page opens with, and the solo runs behind its headline, as a
trace.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from draftscope import load
from draftscope.base.assets import assets
from draftscope.decode.race import race, solo_runs, verify_costs
from draftscope.drafters.settings import Settings
from draftscope.trace import files
from draftscope_app.page.bundle import opening
from draftscope_app.page.controls import LANE

FIRST = assets() / "traces" / "first.jsonl.gz"


def record(
    out: Annotated[Path, typer.Option(metavar="FILE", help="where the trace goes")] = FIRST,
    target: Annotated[str | None, typer.Option(metavar="MODEL", help="default: the embedded pair")] = None,
    draft: Annotated[str | None, typer.Option(metavar="MODEL", help="draft model")] = None,
    tokens: Annotated[int, typer.Option(help="tokens to write")] = 128,
    gamma: Annotated[int, typer.Option(help="drafted tokens in a chain")] = 4,
    prompt: Annotated[str, typer.Option(help="the text to continue", show_default=False)] = opening(),
) -> None:
    """Record the run that the page opens with."""
    lab = load(target, draft)
    lanes = {
        "plain": Settings.of(drafter="plain", max_new_tokens=tokens),
        LANE: Settings.of(drafter="draft", gamma=gamma, max_new_tokens=tokens),
    }
    runs = [lab.session(prompt, settings, run="first", lane=lane) for lane, settings in lanes.items()]
    events = list(race(runs))
    events += solo_runs(lab, prompt, lanes, "first", repeats=3)
    events += verify_costs(lab, lanes, "first")
    files.write(out, events)
    print(f"{out}: {len(events)} events, {out.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    typer.run(record)
