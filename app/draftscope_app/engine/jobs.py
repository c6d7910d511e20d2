"""Jobs, the commands about them, and what the engine process says. Plain data, no torch."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from draftscope.advise.question import Asked
from draftscope.base.load_settings import LoadSettings
from draftscope.base.progress import Progress
from draftscope.decode.fork import ForkPoint
from draftscope.drafters.settings import Settings

State = Literal["queued", "running", "stepping", "solo", "done"]  # of a job
Phase = Literal["loading", "ready", "failed"]  # of an engine

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
    """Something that a visitor asks of the engine: its subclass says what. `lanes` are settings by name."""

    model_config = ConfigDict(frozen=True)

    is_run: ClassVar[bool] = False  # its lanes are raced and shown; else it is a measurement, which lets races go first
    keeps_last: ClassVar[bool] = True  # its latest event says it all

    id: str
    prompt: str = ""
    lanes: dict[str, Settings] = {}


class RunJob(Job):
    """A race of the lanes, then whole solo runs of each. A fork has one lane, and its events the name of the run
    that it leaves."""

    is_run, keeps_last = True, False
    kind: Literal["run"] = "run"
    steps: int | None = None  # rounds that may be decoded before a `Step`; None: all
    solo_repeats: int = 0
    fork_point: ForkPoint | None = None


class RaceJob(Job):
    """Other programs write the lanes that have an address, the engine itself the others, in turns."""

    is_run, keeps_last = True, False
    kind: Literal["race"] = "race"
    urls: dict[str, str]  # lane -> address, never one that a stranger has sent
    inside: tuple[str, ...] = ()  # lanes that are shown by the recorders inside them
    repeats: int = 1  # answers of each


class InsideJob(Job):
    """The only lane is a server, whose recorder sends its rounds: of what it is asked for, or of an earlier request."""

    is_run, keeps_last = True, False
    kind: Literal["inside"] = "inside"
    urls: dict[str, str]
    request: str = ""  # the earlier one


class CompareJob(Job):
    """All lanes are decoded whole, in turn."""

    keeps_last = False
    kind: Literal["compare"] = "compare"
    repeats: int


class CheckJob(Job):
    """The only lane's drafter and rule are checked by sampling."""

    kind: Literal["check"] = "check"
    samples: int  # of each distribution test


class AdviseJob(Job):
    """A question is answered; the only lane says how long an answer is."""

    keeps_last = False
    kind: Literal["advise"] = "advise"
    wish: Asked


class AuditJob(Job):
    """The first server is audited against the second if there is one, else against the target loaded here."""

    kind: Literal["audit"] = "audit"
    urls: dict[str, str]
    samples: int  # at most


class LoadJob(Job):
    """All servers are put under load."""

    kind: Literal["load"] = "load"
    urls: dict[str, str]
    points: tuple[int, ...]  # requests at once


class ExperimentJob(Job):
    """Commands of the command line run, in processes of their own."""

    kind: Literal["experiment"] = "experiment"
    name: str


AnyJob = RunJob | RaceJob | InsideJob | CompareJob | CheckJob | AdviseJob | AuditJob | LoadJob | ExperimentJob

# Page -> engine process.


@dataclass(frozen=True)
class Start:
    job: AnyJob
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


Message = Update | EngineStatus
