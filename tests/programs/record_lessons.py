"""Records the runs that the lessons show: `python -m tests.programs.record_lessons`.

Run it whenever the weights of the embedded pair or of SmolLM2's drafters have changed, on a machine that does nothing
else; it takes about seven minutes and, for the lanes with emulated sizes, 5 GB of memory. Lessons about rules and
rounds are of the embedded pair, those about speed of SmolLM2. Each run becomes assets/lessons/NAME.jsonl.gz, and a
sweep over batch sizes NAME.sweep.jsonl beside it. The lessons contain no number and no token of their own: all of them
are computed from these files, so that a new recording needs no new text. If a lesson needs an event (a uniform that
could have gone either way, a bonus token), seeds are tried in order until it happens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from draftscope import load
from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.race import race
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.bench_plan import BenchPlan
from draftscope.models.loading.embedded import PAIR
from draftscope.models.loading.known import known
from draftscope.trace import files
from draftscope.trace.events import AnyEvent, Round, Verified
from draftscope_app.doors.learn.lessons import page as lessons
from draftscope_app.page.bundle import presets
from draftscope_app.page.controls import LANE
from tests.programs import record_sweep

LESSONS = assets() / "lessons"
WORD = re.compile(r"\s?[A-Za-z]+")  # a token that one can see
SEEDS = 40  # tried at most
LARGE = "1.7b+135m"  # the pair whose costs a pair gets where a lesson speaks of a large target
REAL = "smollm2"
Rounds = Sequence[Round]


@dataclass(frozen=True)
class Elsewhere:
    """A race on the embedded pair, for drafters that a lesson's own pair lacks: `drafters` beside plain."""

    kind: str
    drafters: tuple[str, ...]
    gamma: int

    @property
    def lanes(self) -> dict[str, dict[str, Any]]:
        drafting = {name: {"drafter": name, "gamma": self.gamma} for name in self.drafters}
        return {"plain, embedded": {"drafter": "plain"}, **drafting}


@dataclass(frozen=True)
class Recorded:
    """One run on the pair `on`: the kind of its prompt, each lane's settings, the settings of all, and what the last
    lane must show. With `beside`, the same lanes race on a prompt of another kind too: where drafting pays beside where
    it does not. The lanes `as_large` race once more with the costs of a large pair (`LARGE`); they must be greedy, so
    that their tokens are the same whatever the seed. Drafters that `on` lacks race `elsewhere`."""

    kind: str
    lanes: Mapping[str, Mapping[str, Any]]
    common: Mapping[str, Any]
    tells: Callable[[Rounds], bool] = bool
    beside: str = ""
    as_large: tuple[str, ...] = ()
    on: str = PAIR
    which: int = 0  # of the prompts of a kind
    elsewhere: Elsewhere | None = None

    @property
    def names(self) -> list[str]:
        """Of all lanes, in their order."""
        beside = [f"{lane}, {self.beside}" for lane in self.lanes if self.beside]
        elsewhere = [] if self.elsewhere is None else [*self.elsewhere.lanes]
        return [*self.lanes, *beside, *elsewhere, *(f"{lane}, {LARGE}" for lane in self.as_large)]


def both_falls(rounds: Rounds) -> bool:
    """Of the words, one uniform near its threshold passed and another failed; a child was certain; a round ended with
    a bonus."""
    uniforms = list(_uniforms(rounds))
    words = {(i, node.id) for i, r in enumerate(rounds) for node in r.nodes if WORD.fullmatch(node.raw)}
    open_ = [
        child.passed
        for i, r in enumerate(rounds)
        for child in _uniforms([r])
        if (i, child.node) in words and child.threshold is not None and 0.15 < child.threshold < 0.85
    ]
    certain = any(child.threshold == 1.0 for child in uniforms)
    return {True, False} <= set(open_) and certain and any(r.last.kind == "bonus" and not r.cut for r in rounds)


def overconfident(rounds: Rounds) -> bool:
    """The draft gave a child far more probability than the target did, and it was rejected."""
    return any(not c.passed and c.q is not None and c.q > 0.2 and c.p < c.q / 2 for c in _uniforms(rounds))


def sibling_saved(rounds: Rounds) -> bool:
    """In some decision the first child was rejected and its sibling accepted."""
    return any(
        [child.passed for child in decision.children] == [False, True] for r in rounds for decision in r.decisions
    )


def copied(rounds: Rounds) -> bool:
    """Some round found a text to copy."""
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
        "Q&A",
        PLAIN | {name: {"drafter": name, "gamma": 4} for name in ("draft", "eagle3")},
        {"max_new_tokens": 64},
        beside="dialogue",
        on=REAL,
        which=1,
        elsewhere=Elsewhere("story", ("medusa", "block"), 4),
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
    "when": Recorded(
        "story",
        PLAIN | {LANE: {"drafter": "draft", "gamma": 2}, "costly": {"drafter": "early-exit", "gamma": 2}},
        {"max_new_tokens": 64},
        beside="Q&A",
        as_large=("plain", LANE),
        on=REAL,
    ),
}

SWEPT = {  # name of a run -> the sweep over batch sizes that its lesson shows
    "when": BenchPlan(
        drafters=("draft",), gammas=(2, 4), temperatures=(1.0,), batches=(1, 2, 4, 8, 16, 32), tokens=32, repeats=5,
        peers=False,
    )
}  # fmt: skip


def record(
    engine: DecodingEngine, name: str, recorded: Recorded, prompts: Mapping[str, Sequence[str]]
) -> list[AnyEvent]:
    """The run of the first seed in which what the lesson needs happens; `prompts` by kind of text."""
    for seed in range(SEEDS):
        common = {**recorded.common, "seed": seed}
        events = _race(engine, name, prompts[recorded.kind][recorded.which], recorded.lanes, common)
        last = list(recorded.lanes)[-1]
        if recorded.tells([event for event in events if isinstance(event, Round) and event.lane == last]):
            if recorded.beside:
                beside = {f"{lane}, {recorded.beside}": settings for lane, settings in recorded.lanes.items()}
                events += _race(engine, name, prompts[recorded.beside][recorded.which], beside, common)
            return events
    raise DraftscopeError(f"lesson '{name}': none of {SEEDS} seeds shows what it needs; change its settings.")


def record_as_large(
    engine: DecodingEngine, name: str, recorded: Recorded, prompts: Mapping[str, Sequence[str]]
) -> list[AnyEvent]:
    """The race of the lanes `as_large` on the lesson's prompt; `engine` is the same pair with emulated sizes."""
    lanes = {f"{lane}, {LARGE}": recorded.lanes[lane] for lane in recorded.as_large}
    return _race(engine, name, prompts[recorded.kind][recorded.which], lanes, recorded.common)


def _race(
    engine: DecodingEngine, name: str, prompt: str, lanes: Mapping[str, Mapping[str, Any]], common: Mapping[str, Any]
) -> list[AnyEvent]:
    settings = {lane: Settings.of(**{**common, **own}) for lane, own in lanes.items()}
    return list(race([engine.start(prompt, each, run=name, lane=lane) for lane, each in settings.items()]))


def main(
    out: Annotated[Path, typer.Option(metavar="DIR", help="folder of the lessons")] = LESSONS,
    target: Annotated[str | None, typer.Option(metavar="MODEL", help="default: each lesson's own")] = None,
    draft: Annotated[str | None, typer.Option(metavar="MODEL", help="draft model")] = None,
    head: Annotated[list[str] | None, typer.Option(metavar="KIND:MODEL", help="a head; may be repeated")] = None,
) -> None:
    """Record the runs that the lessons use."""
    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[AnyEvent]] = {}
    for pair in dict.fromkeys(recorded.on for recorded in RECORDED.values()):
        own = {name: recorded for name, recorded in RECORDED.items() if recorded.on == pair}
        prompts = presets(chat=known(target or pair) is not None)
        with load(target or pair, draft, heads=head or []) as engine:
            found |= {name: record(engine, name, recorded, prompts) for name, recorded in own.items()}
            for name in SWEPT.keys() & own.keys():
                runs = record_sweep.measure(engine, SWEPT[name], prompts[own[name].kind])
                record_sweep.write(out / f"{name}{lessons.SWEEP}", runs)
                print(f"{name}: {len(runs)} whole runs of a sweep", flush=True)
        large = {name: recorded for name, recorded in own.items() if recorded.as_large}
        if large:
            with load(target or pair, draft, emulate=LARGE) as engine:
                for name, recorded in large.items():
                    found[name] += record_as_large(engine, name, recorded, prompts)
    with load(target, draft, heads=head or []) as engine:
        for name, recorded in RECORDED.items():
            if recorded.elsewhere is not None:
                prompt, lanes = presets()[recorded.elsewhere.kind][0], recorded.elsewhere.lanes
                found[name] += _race(engine, name, prompt, lanes, recorded.common)
    for name, events in found.items():
        path = out / f"{name}.jsonl.gz"
        files.write(path, events)
        print(f"{path}: {path.stat().st_size / 1024:.0f} KiB", flush=True)


if __name__ == "__main__":
    typer.run(main)
