"""Records the runs that the page shows before any model is loaded: `python -m tests.programs.record_first`.

Each is a race of the models that a server opens on, as it loads them, and the solo runs behind its headline, as a
trace: first.jsonl.gz with the settings that the page opens with, sampled.jsonl.gz with those of the second picture.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from draftscope import load
from draftscope.base.assets import assets
from draftscope.base.steps import last, said
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.lane import Lane
from draftscope.decode.race import race, solo_runs, verify_costs
from draftscope.models.loading.known import known
from draftscope.trace import files
from draftscope.trace.events import AnyEvent
from draftscope_app.engine.opening_models import OPENS_ON
from draftscope_app.page import controls, opening_settings

TRACES = assets() / "traces"
FIRST = TRACES / "first.jsonl.gz"


def record(engine: DecodingEngine, out: Path, changed: dict[str, Any]) -> None:
    """A run with the page's settings, so many `changed`."""
    chosen = controls.defaults() | changed
    prompt, name = chosen["prompt"], out.name.split(".")[0]
    lanes = {lane: Lane.of(engine, settings) for lane, settings in controls.lanes(chosen, None).items()}
    runs = [last(engine.opening(prompt, one, name, lane)) for lane, one in lanes.items()]
    events: list[AnyEvent] = list(race(runs))
    events += said(solo_runs(engine, prompt, lanes, name, repeats=5))
    events += said(verify_costs(engine, lanes, name))
    files.write(out, events)
    print(f"{out}: {len(events)} events, {out.stat().st_size / 1024:.0f} KiB")


def main(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="where the traces go")] = TRACES,
    target: Annotated[str, typer.Option(metavar="MODEL", help="default: what a server opens on")] = OPENS_ON,
    draft: Annotated[str | None, typer.Option(metavar="MODEL", help="draft model")] = None,
    tokens: Annotated[int | None, typer.Option(help="tokens to write; default: as the page opens")] = None,
) -> None:
    """Record the runs that the page opens with; of a model that does not answer in a chat, the first alone."""
    chat = known(target) is not None
    length = {} if tokens is None else {"max_new_tokens": tokens}
    with load(target, draft) as engine:
        record(engine, out / FIRST.name, opening_settings.settings(chat=chat) | length)
        if chat:
            record(engine, out / "sampled.jsonl.gz", opening_settings.RULE | opening_settings.CHAT_SAMPLED | length)


if __name__ == "__main__":
    typer.run(main)
