"""The bytes of tokens in a trace: text with a character for each byte, of which whoever reads it makes bytes again."""

from __future__ import annotations

from collections.abc import Iterator

from draftscope.trace.events import AnyEvent, Burst, Round, RunStart


def not_a_byte(event: AnyEvent) -> str:
    """A character in the bytes of the event's tokens that stands for no byte; empty where there is none."""
    try:
        "".join(_raws(event)).encode("latin-1")
    except UnicodeEncodeError as error:
        return str(error.object[error.start])
    return ""


def _raws(event: AnyEvent) -> Iterator[str]:
    if isinstance(event, RunStart):
        yield event.prompt_last_raw
        yield from event.fork.raw if event.fork is not None else ()
    elif isinstance(event, Burst):
        yield from event.emitted_raw
    elif isinstance(event, Round):
        yield from event.emitted_raw
        yield event.last.raw
        yield from (node.raw for node in event.nodes)
        shown = [given for decision in event.decisions for given in decision.distributions]
        yield from (raw for given in (*shown, event.last.distributions) if given is not None for raw in given.raw)
