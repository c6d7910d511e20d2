"""`draftscope decode PROMPT`: the text live as rounds come, then one summary line; or one JSON object."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from draftscope.base.errors import DraftscopeError
from draftscope.base.steps import stoppable
from draftscope_app.cli import options, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import Given, takes
from draftscope_app.cli.terminal import interruptible
from draftscope_app.reports import lanes

if TYPE_CHECKING:
    from draftscope.decode.run import Run
    from draftscope.trace.events import AnyEvent

Watch = Callable[[Iterator["AnyEvent"]], Iterator["AnyEvent"]]  # passes events on and shows them

app = typer.Typer(add_completion=False)


@app.command()
@takes(loading=options.MODEL_OPTIONS, chosen=options.settings_options())
def decode(
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="the text to continue; '-' reads standard input")],
    loading: Given,
    chosen: Given,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="record the run; compressed where FILE ends in .gz",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    json: options.Json = False,
) -> int:
    """Decode a prompt: print the text while it is written, then a summary on stderr.

    Settings are checked before a model is loaded.
    """
    text = _text(prompt)
    load, drafter = options.models(loading, chosen.get("drafter"))
    settings = options.settings(chosen, drafter)
    from draftscope import drafters

    drafters.find(settings.drafter)
    lane = options.load(load).start(text, settings)
    events, lost = _decode(lane, _counted(settings.max_new_tokens) if json else _streamed, trace)
    done = lanes.lanes(events)[0].decoded()
    if json:
        print(lanes.as_json(done))
    else:
        print(lanes.summary(done.metrics), file=sys.stderr)
    if lost is not None:
        raise lost
    return ExitCode.OK


def _text(given: str) -> str:
    try:
        text = sys.stdin.read() if given == "-" else given
        text.encode()
    except UnicodeError:
        raise DraftscopeError("The prompt is not valid UTF-8; convert it first.") from None
    return text


def _decode(lane: Run, shown: Watch, trace: Path | None) -> tuple[list[AnyEvent], DraftscopeError | None]:
    """All events of a run, shown and written as they come, and why the trace was not written whole, if so: the run is
    not lost with it. Ctrl-C ends the run within a round and its trace whole."""
    from draftscope.decode.race import race
    from draftscope.trace import files

    events: list[AnyEvent] = []
    lost: DraftscopeError | None = None
    with interruptible() as interrupted:
        coming = shown(_kept(stoppable(race([lane]), interrupted), events))
        if trace is None:
            for _ in coming:
                pass
        else:
            try:
                files.write(trace, coming)
            except DraftscopeError as error:
                if not events or events[-1].kind != "run_end":
                    raise
                lost = error
        if interrupted():
            raise KeyboardInterrupt
    return events, lost


def _kept(events: Iterator[AnyEvent], store: list[AnyEvent]) -> Iterator[AnyEvent]:
    for event in events:
        store.append(event)
        yield event


def _read(events: Iterator[AnyEvent]) -> Iterator[AnyEvent]:
    """The events up to the end of the prompt; counts the tokens that have been read on a terminal's stderr."""
    with terminal.progress("tokens") as bar:
        task, total = bar.add_task("Reading the prompt", total=None), 0
        for event in events:
            if event.kind == "run_start":
                total = event.prompt_tokens - 1  # the last one is the first row of the first round
                bar.update(task, total=total)
            elif event.kind == "prefill":
                bar.update(task, completed=event.tokens)
            yield event
            if event.kind == "prefill" and event.tokens >= total:
                return


def _streamed(events: Iterator[AnyEvent]) -> Iterator[AnyEvent]:
    """Writes the text as rounds bring it."""
    yield from _read(events)
    for event in events:
        if event.kind == "round":
            print(lanes.printable(event.text_delta), end="", flush=True)
        yield event
    print(flush=True)


def _counted(limit: int) -> Watch:
    """Counts the tokens on a terminal's stderr."""

    def watch(events: Iterator[AnyEvent]) -> Iterator[AnyEvent]:
        yield from _read(events)
        with terminal.progress("tokens") as bar:
            task = bar.add_task("Decoding", total=limit)
            for event in events:
                if event.kind == "round":
                    bar.advance(task, len(event.emitted))
                yield event

    return watch
