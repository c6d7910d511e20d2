"""Records the run that the page shows before any model is loaded: `python -m draftscope_app.recordings.first`.

A greedy race of the embedded pair on the prompt that the page opens with, and the solo runs behind its headline, as a
trace.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from draftscope import load
from draftscope.base.assets import assets
from draftscope.decode.race import race, solo_runs
from draftscope.drafters.settings import Settings
from draftscope.trace import files
from draftscope_app.page.bundle import opening
from draftscope_app.page.controls import LANE


def record(out: Path, target: str | None, draft: str | None, tokens: int, gamma: int, prompt: str) -> None:
    lab = load(target, draft)
    lanes = {
        "plain": Settings.of(drafter="plain", max_new_tokens=tokens),
        LANE: Settings.of(drafter="draft", gamma=gamma, max_new_tokens=tokens),
    }
    runs = [lab.session(prompt, settings, run="first", lane=lane) for lane, settings in lanes.items()]
    events = list(race(runs))
    events += solo_runs(lab, prompt, lanes, "first", repeats=3)
    files.write(out, events)
    print(f"{out}: {len(events)} events, {out.stat().st_size / 1024:.0f} KiB")


def main() -> None:
    parser = argparse.ArgumentParser(description="Records the run that the page opens with.")
    parser.add_argument("--out", type=Path, default=assets() / "traces" / "first.jsonl.gz")
    parser.add_argument("--target")
    parser.add_argument("--draft")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--gamma", type=int, default=4)
    parser.add_argument("--prompt", default=opening())
    chosen = parser.parse_args()
    record(chosen.out, chosen.target, chosen.draft, chosen.tokens, chosen.gamma, chosen.prompt)


if __name__ == "__main__":
    main()
