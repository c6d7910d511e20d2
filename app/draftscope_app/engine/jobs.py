"""Jobs, the commands about them, and what the engine process says. Plain data, no torch."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from draftscope.base.load_settings import LoadSettings
from draftscope.base.progress import Progress
from draftscope.base.steps import Steps
from draftscope.drafters.settings import Settings
from draftscope.trace.events import AnyEvent, Record

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine

State = Literal["queued", "running", "stepping", "solo", "done"]  # of a job
Phase = Literal["loading", "ready", "failed"]  # of an engine
Said = AnyEvent | Record | State | Progress | None  # by a job, step by step
Watch = Callable[[], None]  # called within what is timed and cannot yield; may raise `Cancelled`

_numbers = itertools.count(int(1000 * time.time()))  # grows over restarts too, by which a page knows the later run


def new_id() -> str:
    return f"r{next(_numbers)}"


@dataclass(frozen=True)
class Asker:
    """A visitor, among whom turns go round: one session of the page, or all calls of one address."""

    address: str = ""  # empty where it is not known
    session: str = ""  # of the page; empty for calls


NOBODY = Asker()


class Job(BaseModel):
    """Something that a visitor asks of the engine: its subclass says what, under a `kind` of its own. `lanes` are
    settings by name."""

    model_config = ConfigDict(frozen=True)

    is_run: ClassVar[bool] = False  # its lanes are raced and shown; else it is a measurement, which lets races go first
    keeps_last: ClassVar[bool] = True  # its latest event says it all

    kind: str
    id: str
    prompt: str = ""
    lanes: dict[str, Settings] = {}

    @property
    def repeats_of_lanes(self) -> int | None:
        """How many times its lanes are decoded whole; None where that cannot be known before."""
        return None

    def work(self, engine: DecodingEngine, watch: Watch) -> Steps[Said, None]:
        """The work, as a generator that yields at least once a round. Runs where the models are.

        It yields an event, a state that it enters, or None where it may only be stopped or wait for others. `Cancelled`
        is thrown in to stop it. Raises `DraftscopeError` for what cannot be done.
        """
        raise NotImplementedError


# Page -> engine process.


@dataclass(frozen=True)
class Start:
    job: Job
    asker: Asker = NOBODY


@dataclass(frozen=True)
class Stop:
    """Ends a job at its next step; the lanes of a race still get their `RunEnd`."""

    id: str


@dataclass(frozen=True)
class Step:
    """One more round of the drafting lane (or of the only lane), and what the other lane decodes meanwhile."""

    id: str


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
class Update:
    """Something has happened to a job: an event as its line of the trace, then another state. A note is one sentence;
    an empty one takes the place of the one before, and one beside the state "done" says why it could not go on.
    `progress`: how far it is, where no event says it."""

    id: str
    line: str = ""
    state: State | None = None
    note: str | None = None
    progress: Progress | None = None


@dataclass(frozen=True)
class DrafterChoice:
    """A drafter as the page offers it."""

    name: str
    title: str
    exact: bool
    available: bool
    why_not: str
    uses: tuple[str, ...]
    usual: bool = False  # what drafts where none is named
    is_detour: bool = False  # drafts through text though the draft has the target's tokenizer

    @property
    def is_typed(self) -> bool:
        """A person drafts."""
        return "typed" in self.uses


@dataclass(frozen=True)
class EngineStatus:
    """What the page knows about the engine."""

    phase: Phase = "loading"
    sentence: str = "The engine is starting."
    drafters: tuple[DrafterChoice, ...] = ()
    refused: str = ""  # why other models were not loaded in place of these
    comes_back: bool = False  # of a failed one: it is started again after a pause
    chat: bool = False  # the target has a chat template
    source: str = ""  # what a command line names the target by: an id of the hub, a folder or a file


Message = Update | EngineStatus
