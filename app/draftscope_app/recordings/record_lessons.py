"""Records the runs that the lessons are told on: `python -m draftscope_app.recordings.record_lessons`.

One command, on the embedded pair, whenever its weights have changed; a minute or two. Each run becomes
assets/lessons/NAME.jsonl.gz, a sweep over batches NAME.sweep.jsonl beside it. The lessons hold no figure and no token
of their own: whatever they say is folded from these files, so a new recording needs no new words. Where a lesson needs
something to have happened (a uniform that could have fallen either way, a bonus), seeds are tried in order until it
has.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftscope import load
from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError
from draftscope.decode.lab import Lab
from draftscope.decode.race import race
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.plan import Plan
from draftscope.trace import files
from draftscope.trace.events import AnyEvent, Round, Verified
from draftscope_app.page.bundle import presets
from draftscope_app.page.controls import LANE
from draftscope_app.page.runs import lessons
from draftscope_app.recordings import sweep

SEEDS = 40  # tried at most
Rounds = Sequence[Round]


@dataclass(frozen=True)
class Recorded:
    """One run: its prompt, its lanes' settings, those of all, and what must have happened in the last lane."""

    kind: str
    lanes: Mapping[str, Mapping[str, Any]]
    common: Mapping[str, Any]
    tells: Callable[[Rounds], bool] = bool


def both_falls(rounds: Rounds) -> bool:
    """A uniform that could have fallen either way passed, another did not; a certain child; a bonus below drafts."""
    uniforms = list(_uniforms(rounds))
    open_ = [child.passed for child in uniforms if child.threshold is not None and 0.15 < child.threshold < 0.85]
    certain = any(child.threshold == 1.0 for child in uniforms)
    return {True, False} <= set(open_) and certain and any(r.last.kind == "bonus" and not r.cut for r in rounds)


def overconfident(rounds: Rounds) -> bool:
    """Some child was far likelier under its draft than under the target, and fell."""
    return any(not c.passed and c.q is not None and c.q > 0.2 and c.p < c.q / 2 for c in _uniforms(rounds))


def sibling_saved(rounds: Rounds) -> bool:
    """In some decision the first child fell and its sibling stood."""
    return any(
        [child.passed for child in decision.children] == [False, True] for r in rounds for decision in r.decisions
    )


def copied(rounds: Rounds) -> bool:
    """Something was found to copy."""
    return any(r.drafted for r in rounds)


def _uniforms(rounds: Rounds) -> Iterator[Verified]:
    return (child for r in rounds if not r.cut for decision in r.decisions for child in decision.children)


PLAIN: dict[str, Mapping[str, Any]] = {"plain": {"drafter": "plain"}}
TOKENWISE = {"temperature": 1.0, "rule": "token"}
RECORDED = {
    "rows": Recorded(
        "story",
        PLAIN | {f"{n + 1} rows": {"drafter": "oracle", "gamma": n, "oracle_alpha": 1.0} for n in (1, 3, 7, 15)},
        {"max_new_tokens": 48},
    ),
    "round": Recorded("structured", PLAIN | {LANE: {"drafter": "draft", "gamma": 4}}, {"max_new_tokens": 64}),
    "coin": Recorded(
        "story", PLAIN | {LANE: {"drafter": "draft", "gamma": 3}}, {"max_new_tokens": 40, **TOKENWISE}, both_falls
    ),
    "wrong": Recorded(
        "story",
        PLAIN | {LANE: {"drafter": "early-exit", "gamma": 3}},
        {"max_new_tokens": 32, **TOKENWISE},
        overconfident,
    ),
    "trees": Recorded(
        "story",
        {"chain": {"drafter": "draft", "gamma": 6}, "tree": {"drafter": "sampled-tree", "shape": (2, 1, 1)}},
        {"max_new_tokens": 48, **TOKENWISE},
        sibling_saved,
    ),
    "heads": Recorded(
        "story",
        PLAIN | {name: {"drafter": name, "gamma": 4} for name in ("draft", "medusa", "eagle3", "block")},
        {"max_new_tokens": 64},
    ),
    "ahead": Recorded(
        "verse",
        PLAIN
        | {
            "guesses": {"drafter": "lookahead"},
            "prepared": {"drafter": "ssd", "gamma": 4},
            "copies": {"drafter": "ngram", "gamma": 4},
        },
        {"max_new_tokens": 64},
        copied,
    ),
    "when": Recorded("story", PLAIN | {LANE: {"drafter": "draft", "gamma": 4}}, {"max_new_tokens": 96}),
}

SWEPT = {  # beside a run, what its lesson tells of batches
    "when": Plan(
        drafters=("draft",), gammas=(2, 4), temperatures=(1.0,), batches=(1, 2, 4, 8, 16, 32), tokens=32, repeats=5,
        peers=False,
    )
}  # fmt: skip


def record(lab: Lab, name: str, recorded: Recorded) -> list[AnyEvent]:
    """The run of the first seed in which what the lesson needs happens."""
    prompt = presets()[recorded.kind][0]
    for seed in range(SEEDS):
        lanes = {lane: Settings.of(**{**recorded.common, **own, "seed": seed}) for lane, own in recorded.lanes.items()}
        events = list(race([lab.session(prompt, one, run=name, lane=lane) for lane, one in lanes.items()]))
        last = list(lanes)[-1]
        if recorded.tells([event for event in events if isinstance(event, Round) and event.lane == last]):
            return events
    raise DraftscopeError(
        f"lesson '{name}': in {SEEDS} seeds nothing happened that it could show; change its settings."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Records the runs that the lessons are told on.")
    parser.add_argument("--out", type=Path, default=assets() / "lessons", metavar="DIR")
    parser.add_argument("--target")
    parser.add_argument("--draft")
    parser.add_argument("--head", action="append", default=[], dest="heads", metavar="KIND:MODEL")
    chosen = parser.parse_args()
    lab = load(chosen.target, chosen.draft, heads=chosen.heads)
    for name, recorded in RECORDED.items():
        path = chosen.out / f"{name}.jsonl.gz"
        files.write(path, record(lab, name, recorded))
        print(f"{path}: {path.stat().st_size / 1024:.0f} KiB", flush=True)
    for name, plan in SWEPT.items():
        runs = sweep.measure(lab, plan, presets()[RECORDED[name].kind])
        sweep.write(chosen.out / f"{name}{lessons.SWEEP}", runs)
        print(f"{name}: {len(runs)} whole runs of a sweep", flush=True)


if __name__ == "__main__":
    main()
