"""Who writes the audited texts: a server, or anything else that takes a `Request`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from draftscope.base.errors import DraftscopeError
from draftscope.servers.adapter import Chunk, Request, Server, ServerError
from draftscope.servers.programs.program_list import asked_programs, title_of, titles

ENDED = "stop"  # a server's word for a text that ended by itself


class Writer(Protocol):
    """The part of `adapter.Server` that an audit uses."""

    def stream(self, request: Request) -> Iterator[Chunk]: ...


@dataclass(frozen=True)
class Written:
    """A text: its tokens, and whether the model ended it (an end token may be left out by the server)."""

    tokens: tuple[int, ...]
    ended: bool

    def with_end(self, ends: tuple[int, ...]) -> tuple[int, ...]:
        """The tokens up to and with the first one that ends a text, added where the server left it out."""
        first = next((t for t, token in enumerate(self.tokens) if token in ends), None)
        if first is not None:
            return self.tokens[: first + 1]
        return (*self.tokens, ends[0]) if self.ended and ends else self.tokens


def refuse_without_ids(server: Server) -> None:
    """Raises `DraftscopeError` for a server that cannot be audited whatever it is started with."""
    if not server.identity.offers.ids_out:
        auditable = titles(tuple(program for program in asked_programs() if program.returns_ids), "and")
        title = title_of(server.identity.kind)
        raise DraftscopeError(
            f"{server.identity.url} is {title}, which does not return token ids, so nobody can tell which tokens it "
            f"sampled; it can be raced, not audited. {auditable} return them."
        )


def write(writer: Writer, request: Request) -> Written:
    """Raises `ServerError` where the server fails, or does not say which tokens it wrote."""
    tokens: list[int] = []
    finish, text, said = None, "", None
    for chunk in writer.stream(request):
        tokens += chunk.ids
        text += chunk.text
        finish, said = chunk.finish or finish, chunk.written or said
    if text and not tokens:
        raise ServerError("The server does not say which tokens it wrote; start it so that it returns token ids.")
    if len(tokens) > request.max_tokens:
        raise ServerError(f"The server wrote {len(tokens)} tokens where {request.max_tokens} were asked for.")
    if said is not None and said != len(tokens):
        raise ServerError(f"The server says that it wrote {said} tokens and named {len(tokens)} of them.")
    return Written(tuple(tokens), finish == ENDED)
