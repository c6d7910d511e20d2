"""Compares drafters on one prompt by whole runs in turn, so that changes of the machine's speed affect all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from draftscope.base.errors import DraftscopeError
from draftscope.base.progress import Progress
from draftscope.base.steps import Steps
from draftscope.decode.lane import Lane
from draftscope.drafters.settings import Settings
from draftscope.trace import events

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine


class ComparedLane(events.Record):
    """A drafter's unrecorded whole runs so far; a lane's later event replaces its earlier ones.

    c is `draft_ms` over plain's `round_ms`, tau `tokens` over `rounds`; speed is tokens over the median of `seconds`.
    """

    kind: Literal["compared"] = "compared"
    lane: str
    drafter: str
    title: str
    exact: bool
    synthetic: bool
    rule: str
    tokens: int = 0  # of the latest run; all runs write the same text, except a bandit's above temperature 0
    rounds: int = 0  # of the latest run
    drafted: int = 0  # of the latest run: tokens that could be accepted
    idle: str = ""  # why a round of this drafter may draft nothing
    seconds: list[float] = Field(default_factory=list)  # with prefill, in order
    draft_ms: float | None = None  # median of single draft forwards; absent if none was measured
    round_ms: float | None = None  # median of whole rounds
    refused: str = ""  # why it could not run here


@dataclass
class _Measured:
    """The measurements of one lane."""

    seconds: list[float] = field(default_factory=list)
    forwards: list[float] = field(default_factory=list)
    rounds: list[float] = field(default_factory=list)


def compare(
    engine: DecodingEngine,
    prompt: str,
    lanes: Mapping[str, Settings],
    repeats: int = 3,
) -> Iterator[ComparedLane | Progress | None]:
    """Runs the lanes in the order A B C A B C and yields a lane after each of its runs, and None after each round;
    where a lane needs costs that are not known yet, how far they are measured. A lane that cannot run says why once."""
    measured = {lane: _Measured() for lane in lanes}
    chosen = {lane: Lane.of(engine, settings) for lane, settings in lanes.items()}
    refused: set[str] = set()
    for _ in range(repeats):
        for name, lane in chosen.items():
            if name in refused:
                continue
            try:
                event = yield from _run_once(engine, prompt, name, lane, measured[name])
            except DraftscopeError as error:
                refused.add(name)
                event = _describe_lane(name, lane).model_copy(update={"refused": str(error)})
            yield event


def _run_once(
    engine: DecodingEngine, prompt: str, name: str, lane: Lane, so_far: _Measured
) -> Steps[Progress | None, ComparedLane]:
    """One more whole run."""
    run = yield from engine.opening(prompt, lane, lane=name, record=False)
    rounds = drafted = 0
    for step in run.steps():
        yield None
        rounds += 1
        drafted += int((~step.tree.never_accepted).sum())
        so_far.forwards += step.tree.forward_ms
        so_far.rounds.append(step.end - step.start)
    so_far.seconds.append(run.clock_ms / 1e3)
    return _describe_lane(name, lane).model_copy(
        update={
            "tokens": len(run.token_ids),
            "rounds": rounds,
            "drafted": drafted,
            "seconds": list(so_far.seconds),
            "draft_ms": median(so_far.forwards) if so_far.forwards else None,
            "round_ms": median(so_far.rounds),
        }
    )


def _describe_lane(name: str, lane: Lane) -> ComparedLane:
    info = lane.info
    return ComparedLane(
        lane=name,
        drafter=info.name,
        title=info.title,
        exact=lane.exact,
        synthetic=info.synthetic,
        rule=lane.rule.name,
        idle=info.idle,
    )
