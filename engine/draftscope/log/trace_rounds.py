"""Draftscope's own traces as a log of rounds: whatever `draftscope decode --trace FILE` or the page saved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from draftscope.base.errors import DraftscopeError
from draftscope.log.entries import LoggedRound, RoundsRead
from draftscope.trace import files
from draftscope.trace.events import AnyEvent, Event, Round, RunStart
from draftscope.trace.result import UNRECORDED

PLAIN = "Lanes that draft nothing are not counted."


def read_trace(path: Path) -> RoundsRead:
    """Raises `DraftscopeError` for a file that is no trace, or one in which no round was recorded."""
    recording = files.read(path)
    every = tuple(_rounds(recording.events))
    if not every:
        raise DraftscopeError(UNRECORDED)
    drafting = {item.request for item in every if item.drafted}
    rounds = tuple(item for item in every if item.request in drafting) or every
    starts = {_request(event): event for event in recording.events if isinstance(event, RunStart)}
    start = starts.get(rounds[0].request) or next(iter(starts.values()))
    facts = (("engine", f"Draftscope {start.draftscope}"), ("drafter", start.title or start.drafter))
    target = tuple(("target", model.name) for model in start.models if model.role == "target")
    notes = (PLAIN if len(rounds) < len(every) else "", recording.warning)
    return RoundsRead("a trace", rounds, facts=facts + target, notes=tuple(filter(None, notes)))


def _rounds(events: Iterable[AnyEvent]) -> Iterator[LoggedRound]:
    """Each lane is a request. Tokens that are written by a lane so far stand before its next round."""
    positions: dict[tuple[str, str, int], int] = {}
    for event in events:
        lane = (event.run, event.lane, event.sequence)
        if isinstance(event, RunStart):
            positions[lane] = event.prompt_tokens
        elif isinstance(event, Round):
            yield _logged(event, positions.get(lane))
            if lane in positions:
                positions[lane] += len(event.emitted)


def _logged(event: Round, position: int | None) -> LoggedRound:
    """Nodes that could never be accepted were not drafted in earnest: they are left out, as in every metric."""
    nodes = [node for node in event.nodes if node.fate != "never_accepted"]
    place = {node.id: number for number, node in enumerate(nodes)}
    uniforms = {child.node: child.uniform for decision in event.decisions for child in decision.children}
    chain = all(node.parent == (-1 if number == 0 else nodes[number - 1].id) for number, node in enumerate(nodes))
    return LoggedRound(
        request=_request(event),
        round=event.round,
        drafted=len(nodes),
        accepted=min(event.accepted, len(nodes)),
        draft=tuple(node.token for node in nodes),
        parents=None if chain else tuple(place.get(node.parent, -1) for node in nodes),
        tokens=tuple(event.emitted),
        position=position,
        at_ms=max(event.start, 0.0),
        ms=max(event.end - event.start, 0.0),
        draft_ms=sum(event.timings.propose),
        verify_ms=event.timings.verify,
        p=tuple(_share(node.p) for node in nodes),
        q=tuple(_share(node.q) for node in nodes) if any(node.q is not None for node in nodes) else None,
        u=tuple(_share(uniforms.get(node.id)) for node in nodes) if any(uniforms.values()) else None,
        text=event.text_delta,
        ended=event.cut,
    )


def _request(event: Event) -> str:
    return event.lane if event.sequence == 0 else f"{event.lane}.{event.sequence}"


def _share(value: float | None) -> float | None:
    """Rounding may leave a probability a little above 1."""
    return None if value is None else min(max(value, 0.0), 1.0)
