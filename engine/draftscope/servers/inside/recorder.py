"""What a server's recorder is asked for. Imports no torch: the page asks it too."""

from __future__ import annotations

from urllib.parse import quote

from draftscope.servers.adapter import ServerError
from draftscope.servers.inside.recording import InsideRecording
from draftscope.servers.wire import Wire

ROUNDS = "/v1/draftscope/rounds"
NEWEST = 64  # requests that are listed
NO_RECORDER = (
    "has no recorder; install draftscope-vllm there and start it with VLLM_PLUGINS=draftscope (engine/SERVERS.md)."
)


def read_state(wire: Wire, request: str = "", after: int = -1) -> InsideRecording:
    """Raises `ServerError` where nothing is recorded, and says why."""
    state = wire.try_get(f"{ROUNDS}?request={quote(request)}&after={after}", InsideRecording)
    if state is None:
        raise ServerError(f"{wire.url} {NO_RECORDER}")
    if not state.on:
        raise ServerError(f"{wire.url}: its recorder has ended: {state.why}.")
    return state


def recorded(wire: Wire) -> list[str]:
    """The requests that a server's recorder has rounds of, the newest first. Raises `ServerError` where it has none."""
    return read_state(wire).requests[: -NEWEST - 1 : -1]
