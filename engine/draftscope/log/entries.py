"""What a log holds: rounds as an engine saw them, and what engines say about several rounds together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

MAX_DRAFT = 4096  # tokens of one round
MAX_COUNT = 1 << 53  # beyond it floats are no whole numbers

Count = Annotated[int, Field(ge=0, le=MAX_COUNT, strict=True)]
Milliseconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, le=1)]
Tokens = Annotated[tuple[Count, ...], Field(max_length=MAX_DRAFT + 1)]
Probabilities = Annotated[tuple[Probability | None, ...], Field(max_length=MAX_DRAFT)]
Words = Annotated[str, StringConstraints(max_length=10_000)]


def _known(about: str, unless: str | None = None) -> Any:
    """A field that may be missing."""
    return Field(default=unless, description=about)


class LogStart(BaseModel):
    """The first line of a log, and of each that was added to it: what ran. Other fields are kept as they are."""

    model_config = ConfigDict(frozen=True, extra="allow")

    draftscope_log: Literal[1] = Field(description="version of the format")
    created: Words = _known("ISO 8601, UTC", "")
    engine: Words = _known("name and version of the program", "")
    target: Words = _known("the large model", "")
    drafter: Words = _known("what proposes tokens: a model, or a method such as ngram", "")
    temperature: float | None = Field(default=None, ge=0, allow_inf_nan=False, description="of sampling; 0: greedy")
    gamma: Count | None = _known("tokens that a round drafts at most")


class LoggedRound(BaseModel):
    """One line: one round of one request. Fields that are missing are not known; unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    request: Words = _known("which text; rounds of one request are in order", "")
    round: Count = Field(description="number of the round in its request, from 0")
    drafted: Annotated[Count, Field(le=MAX_DRAFT)] = Field(description="tokens that were drafted")
    accepted: Count = Field(description="of these, kept")
    emitted: Count | None = _known("tokens that the round added to the text; usually accepted + 1")
    draft: Tokens | None = _known("ids of the drafted tokens, by depth; parents before children")
    parents: tuple[Annotated[int, Field(ge=-1)], ...] | None = _known(
        "for a tree: the place in `draft` of each token's parent; -1: the last token of the text"
    )
    tokens: Tokens | None = _known("ids of the tokens that the round added, with the target's own")
    position: Count | None = _known("tokens of prompt and text before the round")
    at_ms: Milliseconds | None = _known("begin of the round, since any fixed moment of the log")
    ms: Milliseconds | None = _known("duration of the round")
    draft_ms: Milliseconds | None = _known("of it, drafting")
    verify_ms: Milliseconds | None = _known("of it, the target's forward")
    p: Probabilities | None = _known("of each drafted token, under the target; null: not known")
    q: Probabilities | None = _known("of each drafted token, under the distribution it was drawn from")
    u: Probabilities | None = _known("the random number that each drafted token was compared with")
    text: Words | None = _known("what the round added to the text")
    ended: Literal["eos", "stop", "length"] | None = _known("why the text ended in this round")

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.accepted > self.drafted:
            raise ValueError(f"{self.accepted} of {self.drafted} drafted tokens were kept, which are too many")
        for name in ("draft", "parents", "p", "q", "u"):
            values = getattr(self, name)
            if values is not None and len(values) != self.drafted:
                raise ValueError(f"'{name}' has {len(values)} values for {self.drafted} drafted tokens")
        if self.parents and any(parent >= place for place, parent in enumerate(self.parents)):
            raise ValueError("'parents' names a token that stands after its child")
        written = len(self.tokens) if self.tokens is not None else self.emitted
        if written is not None and written > self.accepted + 1:
            raise ValueError(f"{written} tokens were added where {self.accepted} were kept; one more can be")
        return self

    @property
    def levels(self) -> int:
        """The depth of the deepest drafted token: of a chain as many as were drafted."""
        if self.parents is None:
            return self.drafted
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent < 0 else depths[parent] + 1)
        return max(depths, default=0)

    @property
    def added(self) -> int:
        """Tokens that it added to the text; where the log does not say, the target's own one and the kept ones."""
        if self.tokens is not None:
            return len(self.tokens)
        return self.accepted + 1 if self.emitted is None else self.emitted


@dataclass(frozen=True)
class Tally:
    """What is known about several rounds together; None: not known."""

    of: str = ""  # what they are: a request, a moment of a log, all
    rounds: float | None = None  # that drafted something
    drafted: int | None = None
    accepted: int | None = None
    emitted: int | None = None  # tokens that were added to the text
    kept: tuple[float, ...] | None = None  # [positions] rounds that kept this position and all before it
    reached: tuple[float, ...] | None = None  # [positions] rounds that drafted it and kept all before it
    ms: float | None = None
    at_ms: float | None = None  # since the first line of the log
    length: float | None = None  # tokens a round, as an engine says it that does not say of how many rounds
    rate: float | None = None  # share of the drafted tokens that were kept, as such an engine says it

    def __add__(self, other: Tally) -> Tally:
        """Both together: what one of them does not know is not known of both."""
        return Tally(
            rounds=_sum(self.rounds, other.rounds),
            drafted=_sum(self.drafted, other.drafted),
            accepted=_sum(self.accepted, other.accepted),
            emitted=_sum(self.emitted, other.emitted),
            kept=_sums(self.kept, other.kept),
            reached=_sums(self.reached, other.reached),
            ms=_sum(self.ms, other.ms),
        )


@dataclass(frozen=True)
class RoundsRead:
    """A log that was read: its rounds, or tallies where it has no single rounds, or both."""

    source: str  # what wrote it, such as "vLLM's log"
    rounds: tuple[LoggedRound, ...] = ()
    tallies: tuple[Tally, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()  # what it says about itself
    notes: tuple[str, ...] = ()  # sentences about what was worked out or left out


def tally(rounds: Sequence[LoggedRound]) -> Tally:
    """Rounds together. A round that drafted nothing counts for the tokens and the time, not for acceptance."""
    drafts = [item for item in rounds if item.drafted]
    deepest = range(max((item.levels for item in drafts), default=0))
    times = [item.ms for item in rounds]
    return Tally(
        rounds=len(drafts),
        drafted=sum(item.drafted for item in drafts),
        accepted=sum(item.accepted for item in drafts),
        emitted=sum(item.added for item in rounds),
        kept=tuple(sum(item.accepted > place for item in drafts) for place in deepest),
        reached=tuple(sum(item.levels > place and item.accepted >= place for item in drafts) for place in deepest),
        ms=None if None in times or not times else sum(time for time in times if time is not None),
    )


def _sum(one: Any, other: Any) -> Any:
    return None if one is None or other is None else one + other


def _sums(one: tuple[float, ...] | None, other: tuple[float, ...] | None) -> tuple[float, ...] | None:
    if one is None or other is None:
        return None
    return tuple(a + b for a, b in zip_longest(one, other, fillvalue=0))
