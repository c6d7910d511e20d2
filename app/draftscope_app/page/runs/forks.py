"""What a fork is asked for and what it becomes: from the recorded events of the shown run to a job. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from draftscope.base.errors import DraftscopeError
from draftscope.decode.fork import ForkPoint
from draftscope.drafters.settings import Settings
from draftscope.trace.events import AnyEvent, Round, RunStart
from draftscope_app.engine.admission import PageRequest
from draftscope_app.engine.jobs import new_id
from draftscope_app.engine.run_job import RunJob
from draftscope_app.page.plots.views import by_lane

MAX_LANES = 4


class ForkRequest(PageRequest):
    """Leave `lane` in its round number `round`, below `slot`; with `token`, or with a uniform of its own."""

    lane: str
    round: int
    slot: int
    token: int | None


def job(fork: ForkRequest, events: Sequence[AnyEvent]) -> RunJob:
    """The fork as a job: the lane's own settings, another seed, and what its length still allows."""
    lanes = by_lane(events)
    lane_events = lanes.get(fork.lane, [])
    start = next((event for event in lane_events if isinstance(event, RunStart)), None)
    if start is None:
        raise DraftscopeError(f"The shown run has no lane '{fork.lane}' to fork; choose one of its rounds.")
    if start.server is not None:
        raise DraftscopeError(
            f"'{fork.lane}' was written by a server, which cannot be forked; press Run for a lane here."
        )
    if len(lanes) >= MAX_LANES:
        raise DraftscopeError(f"{MAX_LANES} lanes are shown, and more would not be readable; press Run to begin anew.")
    written = [*_before(fork, lane_events), *([] if fork.token is None else [fork.token])]
    left = int(str(start.settings["max_new_tokens"])) - len(written)
    if left < 1:
        raise DraftscopeError("Nothing is left to write behind this token; choose an earlier round, or a longer text.")
    given = (*(start.fork.token_ids if start.fork else ()), *written)
    seed = (start.seed + len(lanes)) % 2**63
    values = dict(start.settings) | {"seed": seed, "max_new_tokens": left}
    name = f"fork {sum(1 for lane in lanes if lane.startswith('fork ')) + 1}"
    fork_point = ForkPoint(fork.lane, fork.round, given, fork.token is not None, start.run)
    return RunJob(id=new_id(), prompt=start.prompt, lanes={name: Settings.of(**values)}, fork_point=fork_point)


def _before(fork: ForkRequest, recorded: Sequence[AnyEvent]) -> list[int]:
    """Tokens that the lane had written when it came to the slot: earlier rounds, then the path down to it."""
    rounds = [event for event in recorded if isinstance(event, Round)]
    at = next((event for event in rounds if event.round == fork.round), None)
    nodes = {node.id: node for node in at.nodes} if at else {}
    if at is None or (fork.slot != -1 and fork.slot not in nodes):
        raise DraftscopeError(f"Round {fork.round + 1} of '{fork.lane}' has no such place; choose one of its nodes.")
    path: list[int] = []
    slot = fork.slot
    while slot != -1:
        path.append(nodes[slot].token)
        slot = nodes[slot].parent
    earlier = [token for event in rounds if event.round < fork.round for token in event.emitted]
    return [*earlier, *reversed(path)]
