"""What is known of a program that serves models: how its servers answer, how they are started, how it samples, and
what its settings for advice are. One file a program; every list of programs is read from these."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from draftscope.base.errors import DraftscopeError
from draftscope.drafters.registry import known_heads
from draftscope.models.head_kinds import SMALL_MODEL
from draftscope.servers.adapter import Server
from draftscope.servers.programs.web_server import Cards
from draftscope.servers.wire import Wire

Step: TypeAlias = Literal["temperature", "top_k", "top_p", "min_p"]


@dataclass(frozen=True)
class ServedPair:
    """What to serve, and how."""

    target: str
    method: str = "ngram"  # a drafter of ours that the program has a name for
    drafter: str | None = None  # its model, for a drafter that has one
    gamma: int = 4
    context: int = 2048
    requests: int = 8  # at once; the same on both sides, or the race compares two batch sizes
    gpus: int = 1  # per node
    nodes: int = 1

    def __post_init__(self) -> None:
        if needs_model(self.method) and not self.drafter:
            raise DraftscopeError(f"--method {self.method} needs the drafter's model; give it with --drafter MODEL.")
        if min(self.gamma, self.context, self.requests, self.gpus, self.nodes) < 1:
            raise DraftscopeError("gamma, context, requests, gpus and nodes are 1 or more each.")

    @property
    def chain(self) -> WantedChain:
        """What it drafts."""
        return WantedChain(self.method, self.gamma, (), self.drafter or "")


@dataclass(frozen=True)
class Command:
    """One process to start."""

    name: str  # "plain" or "speculative"
    port: int
    environment: tuple[tuple[str, str], ...]
    arguments: tuple[str, ...]

    def shell(self) -> str:
        """As one types it."""
        return " ".join(
            [*(f"{name}={shlex.quote(value)}" for name, value in self.environment), shlex.join(self.arguments)]
        )


@dataclass(frozen=True)
class Flag:
    """A flag that matters, and why."""

    flag: str
    why: str


@dataclass(frozen=True)
class Start:
    """How a plain and a speculative server are started. `arguments` of a pair and a port start the plain one;
    `speculation`, of what it drafts, is added for the speculative one. `usual_for`: which models it serves where no
    program is named."""

    name: str
    install: str  # what to type before, once
    arguments: Callable[[ServedPair, int], Sequence[str]]
    speculation: Callable[[WantedChain], Sequence[str]]
    flags: tuple[Flag, ...]
    environment: tuple[tuple[str, str], ...] = ()
    distributed: bool = False  # over several GPUs and nodes
    on_nodes: tuple[str, ...] = ()  # what to type before on several nodes
    usual_for: Literal["", "GGUF files", "others"] = ""

    def commands(self, pair: ServedPair, port: int = 8100) -> tuple[Command, Command]:
        """The plain server on `port` and the speculative one on the next. Raises `DraftscopeError` for several GPUs or
        nodes where the program is started on one machine without GPUs."""
        if not self.distributed and (pair.gpus > 1 or pair.nodes > 1):
            raise DraftscopeError(
                f"{self.name} is started here on one machine without GPUs; choose a program for several."
            )
        plain, more = tuple(self.arguments(pair, port)), tuple(self.speculation(pair.chain))
        speculative = (*self.arguments(pair, port + 1), *more)
        return (
            Command("plain", port, self.environment, plain),
            Command("speculative", port + 1, self.environment, speculative),
        )

    def setup(self, pair: ServedPair) -> tuple[str, ...]:
        """What to type before, once."""
        return (self.install, *(self.on_nodes if pair.nodes > 1 else ()))


@dataclass(frozen=True)
class ScheduleRange:
    """A draft length for a range of concurrent requests."""

    first: int
    last: int
    gamma: int


@dataclass(frozen=True)
class WantedChain:
    """A chain of `gamma` tokens by a `kind` of draft, and its schedule by concurrency, perhaps empty."""

    kind: str  # draft, ngram, suffix, eagle, eagle3, mtp, medusa, block or another drafter's name
    gamma: int
    schedule: Sequence[ScheduleRange]
    model: str

    @property
    def has_model(self) -> bool:
        """Whether the drafter has a model of its own, which the settings must name."""
        return needs_model(self.kind)

    @property
    def max_gamma(self) -> int:
        """The longest draft of the schedule; without one, or where it is off throughout, the chain's own length."""
        return max((part.gamma for part in self.schedule), default=0) or self.gamma


@dataclass(frozen=True)
class Program:
    """A program that serves models.

    `names` are its names for our drafters, but for heads, whose `HeadKind` has them; `settings` writes the settings for
    a chain by one of these, and `checked` says with what they were compared. `sampling_order` is the order in which it
    applies temperature and truncation.
    """

    kind: str  # as a server of it is named
    title: str
    recognise: Callable[[Wire, Cards, str | None], Server | None] | None = None  # None: its servers are not asked
    starts: tuple[Start, ...] = ()
    sampling_order: tuple[Step, ...] = ()
    returns_ids: bool = True  # says which tokens it wrote, without which a text cannot be audited
    names: Mapping[str, str] = field(default_factory=dict)
    settings: Callable[[WantedChain], str] | None = None
    checked: str = ""

    @property
    def drafters(self) -> Mapping[str, str]:
        """Its names for all of our drafters that it has."""
        return dict(self.names) | drafter_names(self.kind)


def drafter_names(program: str) -> dict[str, str]:
    """A program's names for trained heads, by the kind of head."""
    return {kind.name: kind.names[program] for kind in known_heads().values() if program in kind.names}


def needs_model(drafter: str) -> bool:
    """Whether a program must be told where the drafter's weights are: a draft model's, or a head's."""
    kind = known_heads().get(drafter)
    return drafter == SMALL_MODEL if kind is None else not kind.in_target
