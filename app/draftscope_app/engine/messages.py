"""Commands from the page to the engine process, and messages back. Plain data, no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from draftscope.advise.events import Asked
from draftscope.base.load_settings import LoadSettings
from draftscope.decode.fork import ForkPoint

State = Literal["queued", "running", "stepping", "solo", "done"]  # of a run
Phase = Literal["loading", "ready", "failed"]  # of an engine


HERE = ""  # in place of a server's address: the lane is decoded by the engine itself


@dataclass(frozen=True)
class Asker:
    """A visitor, among whom turns go round: one session of the page, or all calls of one address."""

    address: str = ""  # empty where it is not known
    session: str = ""  # of the page; empty for calls


NOBODY = Asker()


@dataclass(frozen=True)
class Job:
    """One run of a visitor: a prompt and its lanes, raced; then, if asked for, whole solo runs of each lane.

    With `compares`, all lanes are decoded whole, in turn; with `checks`, the only lane's drafter is checked; with
    `advises`, that question is answered, and the only lane says how long an answer is.
    With `servers`, other programs write the lanes; with `audits`, the first of them is audited; with `loads`, all of
    them are put under load.
    A fork has one lane, which leaves a lane of the run that it `joins`: its events carry that run's name.
    """

    run: str
    prompt: str
    lanes: tuple[tuple[str, dict[str, Any]], ...]  # name -> values of draftscope.Settings
    steps: int | None = None  # rounds that may be decoded before a `Step`; None: all
    solo_repeats: int = 0
    fork_point: ForkPoint | None = None
    joins: str = ""
    compares: int = 0  # whole runs of each lane
    checks: int = 0  # samples of each distribution test
    advises: Asked | None = None
    servers: tuple[str, ...] = ()  # the address of each lane's server, never one that a stranger has sent; HERE: none
    repeats: int = 1  # answers of each server
    audits: int = 0  # samples at most; against the second server if there is one, else the target loaded here
    loads: tuple[int, ...] = ()  # requests at once, point by point
    asker: Asker = NOBODY

    @property
    def is_run(self) -> bool:
        """Its lanes are raced and shown, in contrast to a comparison, a check, an advice, an audit and a load."""
        asked = self.compares, self.checks, self.audits, self.loads
        return not any(asked) and self.advises is None


# Page -> engine process.


@dataclass(frozen=True)
class Start:
    job: Job


@dataclass(frozen=True)
class Stop:
    """Ends a run within a round; its lanes still get their `RunEnd`."""

    run: str


@dataclass(frozen=True)
class Step:
    """One more round of the drafting lane (or of the only lane), and what the other lane decodes meanwhile."""

    run: str


@dataclass(frozen=True)
class Change:
    """Other models are loaded in place of those that are there; if that fails, those stay."""

    load: LoadSettings


@dataclass(frozen=True)
class Quit:
    """The server ends, and the process with it."""


Command = Start | Stop | Step | Change | Quit

# Engine process -> page.


@dataclass(frozen=True)
class Loading:
    sentence: str


@dataclass(frozen=True)
class DrafterChoice:
    """A drafter as the page offers it."""

    name: str
    title: str
    exact: bool
    available: bool
    why_not: str
    uses: tuple[str, ...]


@dataclass(frozen=True)
class Ready:
    sentence: str
    drafters: tuple[DrafterChoice, ...]
    chat: bool = False  # the target has a chat template


@dataclass(frozen=True)
class LoadFailed:
    sentence: str


@dataclass(frozen=True)
class ChangeFailed:
    """Other models could not be loaded, for the reason in the sentence; the ones before are still loaded."""

    sentence: str


@dataclass(frozen=True)
class Happened:
    """One event of a run, as its line of the trace."""

    run: str
    line: str


@dataclass(frozen=True)
class Entered:
    """A run is in another state."""

    run: str
    state: State


@dataclass(frozen=True)
class Refused:
    """A run cannot go on: one sentence with the remedy."""

    run: str
    sentence: str


@dataclass(frozen=True)
class Noted:
    """One sentence about a run that goes on; an empty one takes the place of the one before."""

    run: str
    sentence: str


RunMessage = Happened | Entered | Refused | Noted
Message = Loading | Ready | LoadFailed | ChangeFailed | RunMessage


@dataclass(frozen=True)
class EngineStatus:
    """What the page knows about the engine."""

    phase: Phase = "loading"
    sentence: str = "The engine is starting."
    drafters: tuple[DrafterChoice, ...] = field(default=())
    refused: str = ""  # why other models were not loaded in place of these
    comes_back: bool = False  # of a failed one: it is started again after a pause
    chat: bool = False  # the target has a chat template
