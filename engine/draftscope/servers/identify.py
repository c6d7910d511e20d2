"""Tells servers apart by what they answer."""

from __future__ import annotations

from collections.abc import Sequence

from draftscope.servers.adapter import Server, ServerError
from draftscope.servers.addresses import permitted
from draftscope.servers.programs import registry
from draftscope.servers.programs.web_server import Cards
from draftscope.servers.wire import Wire, WireLimits


def identify(
    url: str, listed: Sequence[str] = (), model: str | None = None, limits: WireLimits | None = None
) -> Server:
    """The server at `url`, ready to be asked. Raises `ServerError` if it cannot be called or is of no known kind.

    Only loopback addresses, those in `DRAFTSCOPE_SERVERS` and those in `listed` (what the operator wrote on a command
    line, never what a visitor sent) are called. `model` is needed if the server serves several.
    """
    wire = Wire(permitted(url, listed), limits)
    try:
        cards = wire.try_get("/v1/models", Cards) or Cards(data=[])  # transformers serve fails there without a cache
        for program in registry.asked_programs():
            server = program.recognise(wire, cards, model) if program.recognise else None
            if server is not None:
                return server
    except BaseException:
        wire.close()
        raise
    wire.close()
    known = registry.titles(registry.asked_programs(), "and")
    raise ServerError(f"{wire.url} answers as none of {known}.")
