"""The programs, in the order in which they are listed and in which a server is asked what it is."""

from __future__ import annotations

from collections.abc import Sequence

from draftscope.base.errors import DraftscopeError
from draftscope.servers.adapter import Identity, Server, ServerError
from draftscope.servers.addresses import permitted
from draftscope.servers.programs import llama_cpp, sglang, tensorrt_llm, transformers_serve, vllm
from draftscope.servers.programs.program import Program, Start
from draftscope.servers.programs.web_server import Cards
from draftscope.servers.wire import Wire, WireLimits

PROGRAMS: tuple[Program, ...] = (
    vllm.PROGRAM,
    sglang.PROGRAM,
    llama_cpp.PROGRAM,
    tensorrt_llm.PROGRAM,
    transformers_serve.SERVE,
    transformers_serve.GENERATE,
)


def asked_programs() -> tuple[Program, ...]:
    """Those whose servers can be raced, loaded and, where they return token ids, audited."""
    return tuple(program for program in PROGRAMS if program.recognise is not None)


def started_names() -> tuple[str, ...]:
    """What `draftscope servers --program` takes."""
    return tuple(start.name for program in PROGRAMS for start in program.starts)


def methods(start: str | None = None) -> tuple[str, ...]:
    """Our drafters that the program of a start has, or any program that is started."""
    programs = [program for program in PROGRAMS for one in program.starts if start in (None, one.name)]
    return tuple(dict.fromkeys(drafter for program in programs for drafter in program.drafters))


def find_start(name: str) -> Start:
    """How a program is started. Raises `DraftscopeError` for one that is not, with those that are."""
    for start in (start for program in PROGRAMS for start in program.starts):
        if start.name == name:
            return start
    if any(name == program.kind for program in asked_programs()):
        raise DraftscopeError(f"--program {name}: it does not speculate; it can only be the plain server of a race.")
    raise DraftscopeError(f"--program {name}: choose {', '.join(started_names())}.")


def usual_start(target: str) -> Start:
    """The program that serves such a model, on a computer without a GPU, where none is named."""
    kind = "GGUF files" if target.lower().endswith(".gguf") else "others"
    return next(start for program in PROGRAMS for start in program.starts if start.usual_for == kind)


def find(kind: str) -> Program:
    """The program of a server of this kind. Raises `StopIteration` for none."""
    return next(program for program in PROGRAMS if program.kind == kind)


def title_of(kind: str) -> str:
    """The title of the program of such a server; of any other kind, such as a lane of the engine here, the kind."""
    return next((program.title for program in PROGRAMS if program.kind == kind), kind)


def titled(about: Identity) -> str:
    """The program's title and its version, as far as the server says it."""
    return " ".join(filter(None, (title_of(about.kind), about.version)))


def titles(programs: tuple[Program, ...], conjunction: str = "or") -> str:
    """Their titles as one lists them in a sentence."""
    *first, last = (program.title for program in programs)
    return f"{', '.join(first)} {conjunction} {last}" if first else last


def identify(
    url: str, listed: Sequence[str] = (), model: str | None = None, limits: WireLimits | None = None
) -> Server:
    """The server at `url`, ready to be asked. Raises `ServerError` if it cannot be called or is of no known kind.

    Only loopback addresses, those in `DRAFTSCOPE_SERVERS` and those in `listed` (what the operator wrote on a command
    line, never what a visitor sent) are called. `model` is needed if the server serves several.
    """
    wire = Wire(permitted(url, listed), limits)
    cards = wire.try_get("/v1/models", Cards) or Cards(data=[])  # transformers serve fails there without a cache
    for program in asked_programs():
        server = program.recognise(wire, cards, model) if program.recognise else None
        if server is not None:
            return server
    known = titles(asked_programs(), "and")
    raise ServerError(f"{wire.url} answers as none of {known}.")
