"""Races servers: the same token ids, seeds, temperature and stop strings to each, in turns.

The turns alternate: who goes first changes with every prompt and repeat. Where a recorder inside one of the servers is
watched, all are asked at the same moment. Prefix caches of earlier requests are passed over where a server can do so. A
warm-up is not counted. A server that fails is named and the others go on; what it had written is kept, and after
`GIVEN_UP` failures in a row it is not asked again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeAlias

from draftscope.base.errors import DraftscopeError
from draftscope.base.steps import Cancelled, Steps
from draftscope.servers.adapter import Chunk, Counted, CounterError, Finish, Request, Server, ServerError
from draftscope.servers.background import at_once
from draftscope.servers.latency import Arrival, Latency, latency

GIVEN_UP = 2  # failures in a row
PROBE = "The quick brown fox: 12,345 naïve jumps — don't\n\n\tdef f(x):"  # tokenizers that differ do so here
INTERRUPTED = "interrupted"  # why an answer that was stopped is not whole

# A chunk as it arrives: lane, prompt, repeat (-1: the warm-up), chunk, seconds since the request.
Heard: TypeAlias = tuple[str, int, int, Chunk, float]


@dataclass(frozen=True)
class RacePrompt:
    """What to continue: its text as the user wrote it, and the tokens that every server gets."""

    text: str
    ids: tuple[int, ...]
    rendered: str = ""  # the text that `ids` decode to


@dataclass(frozen=True)
class Answer:
    """What one lane made of one prompt."""

    lane: str
    prompt: int
    repeat: int
    ids: tuple[int, ...]
    text: str
    arrivals: tuple[Arrival, ...]
    latency: Latency
    finish: Finish | None
    counted: Counted | None  # by the server, of this request
    written: int | None  # tokens, as the server says
    failure: str | None = None

    @property
    def complete(self) -> bool:
        """Every token's id was sent."""
        return bool(self.ids) and self.written in (None, len(self.ids))


@dataclass(frozen=True)
class RaceLane:
    """A server by the name it is shown with."""

    name: str
    server: Server

    def counters(self) -> Counted | None:
        """None where the server does not count, or does not answer. Raises `CounterError` where it counts nonsense."""
        try:
            return self.server.counters()
        except CounterError:
            raise
        except DraftscopeError:
            return None

    def counted_since(self, before: Counted | None) -> Counted | None:
        """None also where nothing was drafted. Raises `DraftscopeError` where the server was started anew."""
        after = None if before is None else self.counters()
        return None if before is None or after is None or not after.drafted else after - before


@dataclass(frozen=True)
class Race:
    """What to run."""

    prompts: Sequence[RacePrompt]
    request: Request  # its ids and text are replaced by each prompt's; its seed rises by one with each repeat
    repeats: int = 3
    jitter: float = 0.0  # seconds, of the loopback
    recorded: Mapping[str, str] = field(default_factory=dict)  # lane -> the name of its first counted request


@dataclass
class RaceResult:
    """How a race stands; `answers` grows."""

    answers: list[Answer] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)  # lane -> why it is not asked any more
    counted: dict[str, Counted] = field(default_factory=dict)  # lane -> by its counters, over the counted requests

    def of(self, lane: str) -> list[Answer]:
        return [answer for answer in self.answers if answer.lane == lane]


def same_tokenizers(lanes: Sequence[RaceLane], reference: Callable[[str], tuple[int, ...]] | None) -> dict[str, str]:
    """Lane -> why it cannot race: its tokenizer writes `PROBE` in other tokens than the reference or the first lane."""
    dropped, expected = {}, reference(PROBE) if reference else None
    for lane in lanes:
        if not lane.server.identity.offers.tokenize:
            continue  # its count of prompt tokens is compared in each request
        try:
            ids = lane.server.tokenize(PROBE)
        except ServerError as error:
            dropped[lane.name] = str(error)
            continue
        if expected is not None and ids != expected:
            dropped[lane.name] = f"{lane.server.identity.url} has another tokenizer than the {_who(reference)}."
        expected = expected or ids
    return dropped


def _who(reference: object) -> str:
    return "target here" if reference else "first server"


def race(lanes: Sequence[RaceLane], plan: Race, standing: RaceResult) -> Steps[Heard | Answer | None, None]:
    """Runs the plan; yields every chunk, and each counted answer when it is done, which it keeps in `standing`."""
    for lane in lanes:
        if lane.name not in standing.dropped:
            for warm in answered(lane, plan, plan.prompts[0], 0, -1):
                if not isinstance(warm, Answer):
                    yield warm
                elif warm.failure:
                    standing.dropped[lane.name] = warm.failure
    before = _counters(lanes, standing)
    failures = dict.fromkeys(before, 0)
    for repeat in range(plan.repeats):
        for number, prompt in enumerate(plan.prompts):
            turn = (repeat + number) % len(lanes)
            living = [lane for lane in (*lanes[turn:], *lanes[:turn]) if lane.name not in standing.dropped]
            for heard in _answers(living, plan, prompt, number, repeat):
                if isinstance(heard, Answer):
                    standing.answers.append(heard)
                    failures[heard.lane] = failures[heard.lane] + 1 if heard.failure else 0
                    if heard.failure and failures[heard.lane] == GIVEN_UP:
                        standing.dropped[heard.lane] = heard.failure
                yield heard
    for lane in lanes:
        try:
            if (counted := lane.counted_since(before.get(lane.name))) is not None:
                standing.counted[lane.name] = counted
        except DraftscopeError as error:
            standing.dropped.setdefault(lane.name, str(error))


def _counters(lanes: Sequence[RaceLane], standing: RaceResult) -> dict[str, Counted | None]:
    """Of the lanes that race; one that counts nonsense does not."""
    counters = {}
    for lane in lanes:
        try:
            if lane.name not in standing.dropped:
                counters[lane.name] = lane.counters()
        except CounterError as error:
            standing.dropped[lane.name] = str(error)
    return counters


def _answers(
    lanes: Sequence[RaceLane], plan: Race, prompt: RacePrompt, number: int, repeat: int
) -> Steps[Heard | Answer | None, None]:
    """An answer of each lane: in turn, or of all at the same moment."""
    answers = [answered(lane, plan, prompt, number, repeat) for lane in lanes]
    if plan.recorded:
        yield from at_once(answers)
    else:
        yield from chain.from_iterable(answers)


def answered(lane: RaceLane, plan: Race, prompt: RacePrompt, number: int, repeat: int) -> Steps[Heard | Answer, None]:
    """One answer chunk by chunk, and at last as a whole, or as far as it came. `repeat` -1 is the warm-up."""
    request = replace(
        plan.request, ids=prompt.ids, text=prompt.rendered, seed=plan.request.seed + max(repeat, 0),
        name=plan.recorded.get(lane.name, "") if (number, repeat) == (0, 0) else "",
    )  # fmt: skip
    offers = lane.server.identity.offers
    ids: list[int] = []
    text, arrivals = "", []
    finish, counted, written, failure = None, None, None, None
    sent = time.monotonic()
    try:
        for chunk in lane.server.stream(request):
            ids += chunk.ids
            text += chunk.text
            tokens = len(chunk.ids) if offers.ids_out else bool(chunk.text)  # without ids an event counts as a token
            arrivals.append(Arrival(chunk.at - sent, int(tokens)))
            finish, counted, written = chunk.finish, chunk.counted, chunk.written
            yield lane.name, number, repeat, chunk, chunk.at - sent
    except Cancelled:
        failure = INTERRUPTED
    except DraftscopeError as error:
        failure = str(error)
    times = latency(arrivals, offers.bursts_are_chunks, plan.jitter)
    yield Answer(
        lane.name, number, repeat, tuple(ids), text, tuple(arrivals), times, finish, counted, written, failure
    )  # fmt: skip
