"""What a fork is asked for and what it becomes: from the recorded events of the shown run to a job. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from draftscope.base.errors import DraftscopeError
from draftscope.decode.fork import ForkPoint
from draftscope.trace.events import AnyEvent, Round, RunStart
from draftscope_app.page.controls import checked
from draftscope_app.engine.messages import Job
from draftscope_app.page.plots.views import by_lane

MOST_LANES = 4


@dataclass(frozen=True)
class Asked:
    """Leave `lane` in its round number `round`, below `slot`; with `token`, or with a uniform of its own."""

    lane: str
    round: int
    slot: int
    token: int | None = None

    @classmethod
    def of(cls, text: str) -> Asked:
        """What the page sent; a `DraftscopeError` for anything else."""
        try:
            values = json.loads(text)
            asked = cls(str(values["lane"]), *(values[name] for name in ("round", "slot", "token")))
            if not all(type(value) is int for value in (asked.round, asked.slot)) or type(asked.token) not in (
                int,
                type(None),
            ):
                raise TypeError
        except (ValueError, KeyError, TypeError):
            raise DraftscopeError("The page asked for a fork that cannot be read; reload it and try again.") from None
        return asked


def job(asked: Asked, events: Sequence[AnyEvent], run: str) -> Job:
    """The fork as a job named `run`: the lane's own settings, another seed, and what its length still allows."""
    lanes = by_lane(events)
    own = lanes.get(asked.lane, [])
    start = next((event for event in own if isinstance(event, RunStart)), None)
    if start is None:
        raise DraftscopeError(f"The shown run has no lane '{asked.lane}' to fork; choose one of its rounds.")
    if len(lanes) >= MOST_LANES:
        raise DraftscopeError(f"{MOST_LANES} lanes are shown, and more would not be readable; press Run to begin anew.")
    written = [*_before(asked, own), *([] if asked.token is None else [asked.token])]
    left = int(str(start.settings["max_new_tokens"])) - len(written)
    if left < 1:
        raise DraftscopeError("Nothing is left to write behind this token; choose an earlier round, or a longer text.")
    given = (*(start.fork.token_ids if start.fork else ()), *written)
    seed = (start.seed + len(lanes)) % 2**63
    values = dict(start.settings) | {"seed": seed, "max_new_tokens": left}
    name = f"fork {sum(1 for lane in lanes if lane.startswith('fork ')) + 1}"
    fork_point = ForkPoint(asked.lane, asked.round, given, asked.token is not None)
    return Job(run, start.prompt, (checked(name, values),), fork_point=fork_point, joins=start.run)


def _before(asked: Asked, own: Sequence[AnyEvent]) -> list[int]:
    """Tokens that the lane had written when it came to the slot: earlier rounds, then the path down to it."""
    rounds = [event for event in own if isinstance(event, Round)]
    at = next((event for event in rounds if event.round == asked.round), None)
    nodes = {node.id: node for node in at.nodes} if at else {}
    if at is None or (asked.slot != -1 and asked.slot not in nodes):
        raise DraftscopeError(f"Round {asked.round + 1} of '{asked.lane}' has no such place; choose one of its nodes.")
    path: list[int] = []
    slot = asked.slot
    while slot != -1:
        path.append(nodes[slot].token)
        slot = nodes[slot].parent
    earlier = [token for event in rounds if event.round < asked.round for token in event.emitted]
    return [*earlier, *reversed(path)]
