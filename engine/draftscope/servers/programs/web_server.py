"""What the dialects share: the list of models, refusals of what a server cannot do, the end of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, TypeAlias

from pydantic import BaseModel, Field

from draftscope.base.errors import quoted
from draftscope.servers.adapter import (
    LOAD_IT_HERE,
    MAX_COUNT,
    MAX_ROUND,
    Chunk,
    Counted,
    Finish,
    Identity,
    Message,
    Request,
    Server,
    ServerError,
)
from draftscope.servers.prometheus import spec_decode
from draftscope.servers.wire import Wire

Count: TypeAlias = Annotated[int, Field(ge=0, le=MAX_COUNT)]
RoundLength: TypeAlias = Annotated[int, Field(ge=0, le=MAX_ROUND)]


class ModelCard(BaseModel):
    """One model of `/v1/models`."""

    id: str
    owned_by: str = ""
    root: str | None = None
    max_model_len: Count | None = None


class Cards(BaseModel):
    data: list[ModelCard]


class TokenIds(BaseModel):
    tokens: list[int]


class PromptText(BaseModel):
    prompt: str


class WebServer(Server):
    """A server behind a wire; a dialect says what to send and what the events mean."""

    metrics = ""  # what the names of its counters in `/metrics` begin with; empty: they are not read

    def __init__(self, wire: Wire, identity: Identity) -> None:
        self.wire = wire
        self.identity = identity

    def stream(self, request: Request) -> Iterator[Chunk]:
        self._refuse(request)
        return self._complete(self._chunks(request))

    def _chunks(self, request: Request) -> Iterator[Chunk]:
        """The chunks of a request as they come; what the end says may come in chunks after the one with `finish`."""
        raise NotImplementedError

    def _complete(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """Joins what comes after the finish to it. Raises `ServerError` if the stream ends without one."""
        last: Chunk | None = None
        for chunk in chunks:
            if last is not None:
                last = replace(last, counted=chunk.counted or last.counted, written=chunk.written or last.written)
            elif chunk.finish is not None:
                last = chunk
            else:
                yield chunk
        if last is None:
            raise ServerError(f"{self.identity.url} closed the stream before the answer was complete.")
        yield last

    def _refuse(self, request: Request) -> None:
        """Raises `ServerError` if the request needs what this server would silently leave out."""
        offers, where = self.identity.offers, f"{self.identity.url} ({self.identity.kind})"
        if request.ignore_eos and not offers.ignore_eos:
            raise ServerError(f"{where} does not take ignore_eos; leave it off for all servers.")
        if not offers.ids_in and not request.text:
            raise ServerError(f"{where} takes text, not token ids; {LOAD_IT_HERE}, so that the ids can be written out.")
        context = self.identity.context
        if context is not None and len(request.ids) + request.max_tokens > context:
            wanted = f"{len(request.ids)} prompt tokens and {request.max_tokens} more"
            raise ServerError(f"{where} has room for {context} tokens, not for {wanted}; ask for fewer.")

    def counters(self) -> Counted | None:
        text = self.wire.text("/metrics") if self.metrics else None
        return None if text is None else spec_decode(text.decode("utf-8", "replace"), self.metrics)


FINISHED: dict[str, Finish] = {"stop": "stop", "eos": "stop", "word": "stop", "length": "length", "limit": "length"}


def finish(server: Server, said: str | None) -> Finish | None:
    """How the answer ended, None if it did not. Raises `ServerError` if the server gave it up ("abort", "error")."""
    if said is not None and said not in FINISHED:
        raise ServerError(f"{server.identity.url} ended the answer with {quoted(said)}; its log says why.")
    return FINISHED[said] if said else None


def known(logprobs: Sequence[object]) -> tuple[float, ...]:
    """The log-probabilities of an event's tokens; nothing where one of them is missing."""
    numbers = tuple(float(logprob) for logprob in logprobs if isinstance(logprob, int | float))
    return numbers if len(numbers) == len(logprobs) else ()


def same_prompt(server: Server, request: Request, read: int | None) -> None:
    """Raises `ServerError` if the server says that it read another number of prompt tokens than it was sent."""
    if read is not None and read != len(request.ids):
        raise ServerError(
            f"{server.identity.url} read {read} prompt tokens where {len(request.ids)} were sent: its tokenizer or "
            "template is another one; start it on the same model."
        )


def chosen(cards: Cards, model: str | None, url: str) -> ModelCard:
    """The model to ask for. Raises `ServerError` if it is not there, or there are several and none was named."""
    names = [card.id for card in cards.data]
    if model is None and len(names) == 1:
        return cards.data[0]
    for card in cards.data:
        if card.id == model:
            return card
    there = quoted(", ".join(names) or "none", 300)
    if model is None:
        raise ServerError(f"{url} serves {len(names)} models ({there}); name the one to ask.")
    raise ServerError(f"{url} does not serve {quoted(model)}; it serves {there}.")


def chat(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in messages]
