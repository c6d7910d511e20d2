"""The rounds as `draftscope-vllm` sends them. None stands for what was not a number, or not there."""

from __future__ import annotations

from pydantic import BaseModel


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


class DraftedToken(BaseModel):
    """`accepted` is None where an earlier token was rejected, `u` at temperature 0, `draft` where q was not drawn."""

    token: int
    p: float | None
    q: float | None
    u: float | None
    accepted: bool | None
    target: TargetRow
    draft: DrawnToken | None


class NextToken(DrawnToken):
    """The token after the accepted ones: a correction, a bonus, or plain. `target` is None for corrections."""

    token: int
    target: TargetRow | None


class RecordedRound(BaseModel):
    request: str
    number: int
    ms: float
    batch: int
    temperature: float
    top_k: int
    top_p: float
    drafted: list[DraftedToken]
    kind: str
    next: NextToken

    @property
    def written(self) -> list[int]:
        return [*(token.token for token in self.drafted if token.accepted), self.next.token]


class InsideRecording(BaseModel):
    """What the recorder answers. `why` it is off; `lost` steps, for which its thread had no time."""

    on: bool
    why: str
    lost: int
    rounds: list[RecordedRound]
