"""The rounds as `draftscope-vllm` sends them, and how they are asked for. None stands for what was not a number, or not
there. Imports no torch: the page asks too."""

from __future__ import annotations

from typing import Literal
from urllib.parse import quote

from pydantic import BaseModel

from draftscope.servers.adapter import ServerError
from draftscope.servers.wire import Wire

ROUNDS = "/v1/draftscope/rounds"
NEWEST = 64  # requests that are listed
NO_RECORDER = (
    "has no recorder; install draftscope-vllm there and start it with VLLM_PLUGINS=draftscope (engine/SERVERS.md)."
)


class DrawnToken(BaseModel):
    """A token under what it was drawn from, which need not sum to 1: its mass, that of all likelier tokens, and that of
    all that are as likely as it."""

    sum: float | None
    mass: float | None
    above: float | None
    equal: float | None
    top: list[tuple[int, float | None]]


class TargetRow(BaseModel):
    """p as it was used: its sum, how many tokens it keeps and how many are its least likely ones, the best with p and
    the model's logit, and the log of the sum of exp(logit / temperature), None where other processors came between."""

    sum: float | None
    kept: int
    least: int
    top: list[tuple[int, float | None, float | None]]
    whole: float | None


class ShownTokens(BaseModel):
    """p and q of some tokens, q as it was compared; and of all others the sums of p, q, min(p, q) and (p - q)+."""

    ids: list[int]
    p: list[float]
    q: list[float]
    rest_p: float
    rest_q: float
    rest_min: float
    rest_residual: float


class DraftedToken(BaseModel):
    """`accepted` is None where an earlier token was rejected, `u` at temperature 0, `draft` where q was not drawn: then
    q counts as 1."""

    token: int
    p: float | None
    q: float | None
    u: float | None
    accepted: bool | None
    target: TargetRow
    draft: DrawnToken | None
    shown: ShownTokens


class NextToken(DrawnToken):
    """The token after the accepted ones: a correction, a bonus, or plain. `target` is None for corrections."""

    token: int
    target: TargetRow | None


class RecordedRound(BaseModel):
    request: str
    number: int
    ms: float  # of the step
    at: float  # ms, on a clock of the server's: the end of the step
    batch: int
    temperature: float
    top_k: int
    top_p: float
    drafted: list[DraftedToken]
    kind: Literal["correction", "bonus", "plain"]
    next: NextToken

    @property
    def written(self) -> list[int]:
        return [*(token.token for token in self.drafted if token.accepted), self.next.token]


class InsideRecording(BaseModel):
    """What the recorder answers. `why` it is off; `lost` steps, for which its thread had no time; the `requests` that
    it has rounds of, the oldest first, where none was asked for."""

    on: bool
    why: str
    lost: int
    requests: list[str]
    rounds: list[RecordedRound]


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
