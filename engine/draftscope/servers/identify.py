"""Tells servers apart by what they answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from draftscope.servers.adapter import Server, ServerError
from draftscope.servers.addresses import permitted
from draftscope.servers.dialects import llama_cpp, sglang, transformers_serve, vllm
from draftscope.servers.dialects.base import Cards
from draftscope.servers.wire import Limits, Wire

DIALECTS: tuple[Callable[[Wire, Cards, str | None], Server | None], ...] = (
    vllm.recognise,
    sglang.recognise,
    llama_cpp.recognise,
    transformers_serve.recognise,
)


def identify(url: str, listed: Sequence[str] = (), model: str | None = None, limits: Limits | None = None) -> Server:
    """The server at `url`, ready to be asked. Raises `ServerError` if it cannot be called or is of no known kind.

    Only loopback addresses, those in `DRAFTSCOPE_SERVERS` and those in `listed` (what the operator wrote on a command
    line, never what a visitor sent) are called. `model` is needed if the server serves several.
    """
    wire = Wire(permitted(url, listed), limits)
    try:
        cards = wire.asked("/v1/models", Cards) or Cards(data=[])  # transformers serve fails there without a cache
        for recognise in DIALECTS:
            server = recognise(wire, cards, model)
            if server is not None:
                return server
    except BaseException:
        wire.close()
        raise
    wire.close()
    raise ServerError(f"{wire.url} answers as none of vLLM, SGLang, llama.cpp and transformers serve.")
