"""Records all that lessons and a class show, in one command: `python -m tests.programs.record_lessons`.

Run it whenever the weights of SmolLM2's drafters or of the embedded pair have changed, on a machine that does nothing
else. Lessons are of SmolLM2 in bfloat16, as the page's figures are; where the size of the target or of its weights is
the point, the same lanes race on other models (`PAIRS`). Each run becomes assets/lessons/NAME.jsonl.gz, and a sweep
over batch sizes NAME.sweep.jsonl beside it; then the lessons are played once in Chromium for what phones see of them
(record_steps.py). The race of servers needs servers, and has a command of its own (record_servers.py). Neither lessons
nor the questions of a class contain a number or a token of their own: all are computed from these files, so that a new
recording needs no new text. If a lesson needs an event (a uniform that could have gone either way, a bonus token),
seeds are tried in order until it happens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from draftscope import load
from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError
from draftscope.base.load_settings import LoadSettings
from draftscope.base.steps import last
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.race import race
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.bench_plan import BenchPlan
from draftscope.trace import files
from draftscope.trace.events import AnyEvent, Round, Verified, VerifyCosts
from draftscope_app.doors.learn.lessons import page as lessons
from draftscope_app.engine.opening_models import chats
from draftscope_app.page.bundle import presets
from draftscope_app.page.controls import LANE
from tests.programs import record_steps, record_sweep

LESSONS = assets() / "lessons"
WORD = re.compile(r"\s?[A-Za-z]+")  # a token that one can see
SEEDS = 40  # tried at most
REAL, STORED, EMBEDDED, LARGE = "real", "stored", "embedded", "large"
PAIRS = {
    REAL: LoadSettings(target="smollm2", dtype="bfloat16"),
    STORED: LoadSettings(target="smollm2"),  # its 4-bit file as it is
    EMBEDDED: LoadSettings(),  # for drafters that SmolLM2 lacks
    LARGE: LoadSettings(target="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", draft="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF"),
}
WIDENED = (
    "This machine's cache has only a widened copy of SmolLM2's 4-bit file; name a folder that is empty in "
    "DRAFTSCOPE_CACHE, where the file is downloaded once."
)
Rounds = Sequence[Round]
Lanes = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Raced:
    """Lanes that race on one prompt: the pair, the kind of text, and which of its prompts."""

    lanes: Lanes
    kind: str = "story"
    which: int = 0
    on: str = REAL


@dataclass(frozen=True)
class Recorded:
    """The races of one lesson, of which the first is its own: the settings that all lanes share, and what the last
    lane of the first race must show. With `costs` the target's forward is measured by its rows, too."""

    races: tuple[Raced, ...]
    common: Mapping[str, Any]
    tells: Callable[[Rounds], bool] = bool
    costs: bool = False

    @property
    def names(self) -> list[str]:
        """Of all lanes, in their order."""
        return [lane for raced in self.races for lane in raced.lanes]

    @property
    def last(self) -> str:
        """The lane that shows what the lesson tells."""
        return list(self.races[0].lanes)[-1]


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
    """In some decision between words the first child was rejected and its sibling accepted."""
    return any(
        [child.passed for child in decision.children] == [False, True]
        and all(WORD.fullmatch(r.nodes[child.node].raw) for child in decision.children)
        for r in rounds
        for decision in r.decisions
    )


def copied(rounds: Rounds) -> bool:
    """Some round found a text to copy."""
    return any(r.drafted for r in rounds)


def _uniforms(rounds: Rounds) -> Iterator[Verified]:
    return (child for r in rounds if not r.cut for decision in r.decisions for child in decision.children)


def head(gamma: int) -> dict[str, Any]:
    """SmolLM2's own drafter, which the page opens with."""
    return {"drafter": "eagle3", "gamma": gamma}


def named(lanes: Lanes, what: str) -> Lanes:
    """The same lanes by other names: a trace has one of each."""
    return {f"{lane}, {what}": settings for lane, settings in lanes.items()}


PLAIN: Lanes = {"plain": {"drafter": "plain"}}
SMALL: Lanes = {"draft": {"drafter": "draft", "gamma": 2}}
HEADS: Lanes = {**PLAIN, **SMALL, "eagle3": head(2)}
PAYS: Lanes = {**PLAIN, LANE: head(2), "costly": {"drafter": "early-exit", "gamma": 2}}
BLIND: Lanes = {**named(PLAIN, EMBEDDED), **{name: {"drafter": name, "gamma": 4} for name in ("medusa", "block")}}
TOKENWISE = {"temperature": 1.0, "rule": "token"}
RECORDED = {
    "rows": Recorded((Raced(PLAIN),), {"max_new_tokens": 48}, costs=True),
    "round": Recorded((Raced({**PLAIN, LANE: head(4)}),), {"max_new_tokens": 64}),
    "coin": Recorded(
        (Raced({**PLAIN, LANE: head(3)}, which=1),), {"max_new_tokens": 40, **TOKENWISE}, both_falls
    ),
    "wrong": Recorded(
        (Raced({**PLAIN, LANE: {"drafter": "early-exit", "gamma": 3}}),),
        {"max_new_tokens": 32, **TOKENWISE},
        overconfident,
    ),
    "trees": Recorded(
        (Raced({"chain": head(6), "tree": {"drafter": "eagle3-sampled-tree", "shape": (2, 1, 1)}}, which=1),),
        {"max_new_tokens": 48, **TOKENWISE},
        sibling_saved,
    ),
    "heads": Recorded(
        (
            Raced(HEADS, "Q&A", which=1),
            Raced(named(HEADS, "dialogue"), "dialogue", which=1),
            Raced(BLIND, on=EMBEDDED),
        ),
        {"max_new_tokens": 64},
    ),
    "ahead": Recorded(
        (
            Raced(
                {
                    **PLAIN,
                    "guesses": {"drafter": "lookahead"},
                    "prepared": {"drafter": "ssd", "gamma": 2},
                    "copies": {"drafter": "ngram", "gamma": 4},
                },
                "verse",
            ),
        ),
        {"max_new_tokens": 64},
        copied,
    ),
    "when": Recorded(
        (
            Raced(PAYS),
            Raced(named(PAYS, "Q&A"), "Q&A"),
            Raced({**named(PLAIN, STORED), "head, stored": head(1)}, on=STORED),
            Raced(named({**PLAIN, **SMALL}, "code"), "code", which=1),
            Raced(named({**PLAIN, **SMALL}, LARGE), "code", which=1, on=LARGE),
        ),
        {"max_new_tokens": 48},
    ),
}  # fmt: skip

SWEPT = {  # name of a run -> the sweep over batch sizes that its lesson shows
    "when": BenchPlan(
        drafters=("eagle3",), gammas=(2, 4), temperatures=(1.0,), batches=(1, 2, 4, 8, 16), tokens=32, repeats=5,
        peers=False,
    )
}  # fmt: skip


def record(engine: DecodingEngine, name: str, recorded: Recorded, raced: Raced) -> list[AnyEvent]:
    """One race of a lesson; its first is that of the first seed in which what the lesson needs happens."""
    prompt = presets(chat=chats(engine))[raced.kind][raced.which]
    own = raced is recorded.races[0]
    for seed in range(SEEDS if own else 1):
        events = _race(engine, name, prompt, raced.lanes, {**recorded.common, "seed": seed})
        rounds = [event for event in events if isinstance(event, Round) and event.lane == recorded.last]
        if not own or recorded.tells(rounds):
            return events + (_costs(engine, name, raced) if recorded.costs else [])
    raise DraftscopeError(f"lesson '{name}': none of {SEEDS} seeds shows what it needs; change its settings.")


def _race(engine: DecodingEngine, name: str, prompt: str, lanes: Lanes, common: Mapping[str, Any]) -> list[AnyEvent]:
    settings = {lane: Settings.of(**{**common, **own}) for lane, own in lanes.items()}
    return list(race([engine.start(prompt, each, run=name, lane=lane) for lane, each in settings.items()]))


def _costs(engine: DecodingEngine, name: str, raced: Raced) -> list[AnyEvent]:
    """What the target's forward takes, row by row, in the lane of plain decoding."""
    curve = last(engine.verify_curve())
    return [VerifyCosts(run=name, lane=next(iter(raced.lanes)), **curve.model_dump())]


def pairs(large_target: str | None, large_draft: str | None) -> dict[str, LoadSettings]:
    """`PAIRS`, with these files in place of the hub's."""
    large = PAIRS[LARGE]
    return {**PAIRS, LARGE: replace(large, target=large_target or large.target, draft=large_draft or large.draft)}


def record_all(settings: Mapping[str, LoadSettings], out: Path) -> dict[str, list[AnyEvent]]:
    """Every lesson's events, pair by pair; sweeps are written on the way."""
    found: dict[tuple[str, int], list[AnyEvent]] = {}
    weights: dict[str, str] = {}
    for pair, load_settings in settings.items():
        with load(**asdict(load_settings)) as engine:
            weights[pair] = engine.target.weights
            if pair == STORED and weights[pair] and weights[pair] == weights[REAL]:
                raise DraftscopeError(WIDENED)
            for name, recorded in RECORDED.items():
                for n, raced in enumerate(recorded.races):
                    if raced.on == pair:
                        found[name, n] = record(engine, name, recorded, raced)
                        print(f"{name}: {', '.join(raced.lanes)}", flush=True)
            for name in SWEPT if pair == REAL else ():
                prompts = presets(chat=chats(engine))[RECORDED[name].races[0].kind]
                record_sweep.write(out / f"{name}{lessons.SWEEP}", record_sweep.measure(engine, SWEPT[name], prompts))
    return {
        name: [event for n in range(len(recorded.races)) for event in found[name, n]]
        for name, recorded in RECORDED.items()
    }


def main(
    out: Annotated[Path, typer.Option(metavar="DIR", help="folder of the lessons")] = LESSONS,
    large_target: Annotated[str | None, typer.Option(metavar="MODEL", help="default: its hub id")] = None,
    large_draft: Annotated[str | None, typer.Option(metavar="MODEL", help="default: its hub id")] = None,
) -> None:
    """Record the runs that the lessons and a class use, then what phones see of them."""
    out.mkdir(parents=True, exist_ok=True)
    for name, events in record_all(pairs(large_target, large_draft), out).items():
        path = out / f"{name}.jsonl.gz"
        files.write(path, events)
        print(f"{path}: {path.stat().st_size / 1024:.0f} KiB", flush=True)
    if out == LESSONS:
        record_steps.main()


if __name__ == "__main__":
    typer.run(main)
