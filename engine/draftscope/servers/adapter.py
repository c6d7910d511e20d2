"""A server of another program as the rest of this room sees it: identify it, stream from it, read what it counted.

`identify(url)` asks the server what it is and returns a `Server` of its program. Everything in here is blocking and may
be called from several threads at once: a `Server` keeps no state of a request. Every failure is a `ServerError`, a
`DraftscopeError` whose sentence names the URL and what to do about it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

from draftscope.base.errors import DraftscopeError
from draftscope.base.printable import printable

# The remedy where a server cannot.
LOAD_IT_HERE = "load its model here (--target MODEL, on the page under Other models)"
Finish: TypeAlias = Literal["stop", "length"]
MAX_COUNT = 1 << 53  # that a server may say it counted: beyond it floats are no whole numbers
MAX_ROUND = 4096  # tokens of a draft, as far as counters by position are believed


class ServerError(DraftscopeError):
    """A server did not do what it was asked; `text` before the failure has been yielded by then and is kept."""


class CounterError(ServerError):
    """A server counts what nobody can count."""


@dataclass(frozen=True)
class Message:
    """A turn of a chat; the server's own template renders it."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class Request:
    """What a server is asked to write after the prompt `ids`.

    `temperature` 0 is greedy. `top_k` 0, `top_p` 1 and `min_p` 0 are off, and are sent as off: the server's own
    defaults (llama.cpp: top-k 40, top-p .95, min-p .05) never apply.
    """

    ids: tuple[int, ...]  # [prompt] tokens, the special ones included
    max_tokens: int
    text: str = ""  # what `ids` decode to, for a server that takes no ids
    seed: int = 0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False  # write max_tokens whatever they are
    fresh: bool = True  # pass over the prefix cache of earlier requests
    name: str = ""  # by which a recorder inside the server knows the request; empty: it records nothing
    logprobs: bool = False  # ask for the log-probability of each written token

    def __post_init__(self) -> None:
        if not self.ids:
            raise DraftscopeError("the prompt is empty; give a text.")
        if self.max_tokens < 1:
            raise DraftscopeError(f"{self.max_tokens} tokens: ask for 1 or more.")
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise DraftscopeError(f"temperature = {self.temperature}: give 0 or more.")
        if self.top_k < 0:
            raise DraftscopeError(f"top_k = {self.top_k}: give 0 (off) or more.")
        if not 0 < self.top_p <= 1 or not 0 <= self.min_p < 1:
            raise DraftscopeError(
                f"top_p = {self.top_p}, min_p = {self.min_p}: top_p is above 0 up to 1, min_p from 0 to below 1."
            )
        if self.seed < 0 or self.seed >= 2**63:
            raise DraftscopeError(f"seed = {self.seed}: give 0 to 2^63 - 1.")


@dataclass(frozen=True)
class Counted:
    """What a server says that its speculation did: "counted by the server". None: it does not say.

    Counters of a server count all its requests, so `after - before` is one request's only if it ran alone.
    """

    rounds: int | None = None  # verification steps that had a draft
    drafted: int | None = None  # tokens proposed
    accepted: int | None = None  # of these, accepted
    by_position: tuple[int, ...] = ()  # accepted tokens by position in the draft, the first one first
    accepted_per_round: tuple[int, ...] = ()  # of one request, in order, where the server keeps them
    drafted_per_round: tuple[int, ...] = ()

    def __sub__(self, before: Counted) -> Counted:
        """What was counted since `before`; a counter that fell belongs to a server that was started anew."""
        longer = (*before.by_position, *(0 for _ in self.by_position[len(before.by_position) :]))
        since = Counted(
            rounds=_since(self.rounds, before.rounds),
            drafted=_since(self.drafted, before.drafted),
            accepted=_since(self.accepted, before.accepted),
            by_position=tuple(now - then for now, then in zip(self.by_position, longer, strict=False)),
        )
        if any((value or 0) < 0 for value in (since.rounds, since.drafted, since.accepted, *since.by_position)):
            raise ServerError("the server's counters fell during the run: it was started anew; run again.")
        return since


def _since(now: int | None, before: int | None) -> int | None:
    return None if now is None else now - (before or 0)


@dataclass(frozen=True)
class Chunk:
    """A piece of the answer as it arrived: one event of the stream.

    `ids` may be empty (a server that gives no token ids, or an event that carries only text or the end). The last
    chunk has `finish`, `written` and, where the server counts by request, `counted`.
    """

    ids: tuple[int, ...]
    text: str
    at: float  # seconds, time.monotonic(), when its last byte was read here
    finish: Finish | None = None
    counted: Counted | None = None
    written: int | None = None  # tokens that the server says it wrote; more than the ids it sent: ids are missing
    logprobs: tuple[float, ...] = ()  # of `ids`, as the server reports them; empty: it reports none


@dataclass(frozen=True)
class Offers:
    """What a server of this program can do; a request that needs what is missing is refused with its name."""

    ids_in: bool = True  # takes a prompt as token ids
    ids_out: bool = True  # says which tokens it wrote
    chat: bool = True  # `render`
    seed: bool = True
    ignore_eos: bool = True
    tokenize: bool = True
    bursts_are_chunks: bool = False  # a round's tokens come as one chunk; if not, as several with almost no gap


@dataclass(frozen=True)
class Identity:
    """What a server answered when asked what it is. None: it does not say."""

    url: str  # without a trailing slash
    kind: str  # of a program (`programs/program_list.py`), or "draftscope"
    version: str | None
    model: str  # the name that requests carry
    weights: str | None  # the path or hub id that it says it loaded
    context: int | None  # tokens of prompt and answer together
    offers: Offers

    @property
    def sentence(self) -> str:
        """The address with what answers there."""
        return printable(f"{self.url} ({self.kind} {self.version or 'of unknown version'}, {self.model})")


class Server(ABC):
    """A server that runs, of one program. As a context it is closed at the end."""

    identity: Identity

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def stream(self, request: Request) -> Iterator[Chunk]:
        """Yields the answer as it arrives; closing the iterator closes the connection and so stops the server.

        Raises `ServerError`, after what had arrived was yielded, if the server refuses, is silent for too long, closes
        the stream before its end, or sends what its program does not send.
        """

    def counters(self) -> Counted | None:
        """The server's counters since it started; None where it has none or does not publish them."""
        return None

    def tokenize(self, text: str) -> tuple[int, ...]:  # noqa: ARG002
        """The server's own token ids of a text, without special tokens added. Raises `ServerError` if not offered."""
        raise ServerError(f"{self.identity.url} ({self.identity.kind}) does not tokenize; {LOAD_IT_HERE}.")

    def detokenize(self, ids: Sequence[int]) -> str:  # noqa: ARG002
        """The server's own text of these tokens. Raises `ServerError` if not offered."""
        raise ServerError(f"{self.identity.url} ({self.identity.kind}) does not detokenize; {LOAD_IT_HERE}.")

    def render(self, messages: Sequence[Message]) -> tuple[int, ...]:  # noqa: ARG002
        """The token ids of a chat in the server's own template. Raises `ServerError` if not offered."""
        raise ServerError(f"{self.identity.url} ({self.identity.kind}) does not render a chat; {LOAD_IT_HERE}.")

    def close(self) -> None:  # noqa: B027 - a server of another program keeps nothing open
        """Ends what it keeps for later requests."""
