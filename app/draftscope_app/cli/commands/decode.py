"""`draftscope decode PROMPT`: the text live as rounds come, then one summary line; or one JSON object."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from draftscope.base.admit import admit
from draftscope.base.errors import DraftscopeError
from draftscope.base.steps import Steps, last, said, stoppable
from draftscope.trace.result import Result
from draftscope.trace.unhelpful import unhelpful
from draftscope_app.cli import command_options, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import Given, takes
from draftscope_app.cli.terminal import interruptible
from draftscope_app.reports import run_report

if TYPE_CHECKING:
    from draftscope.trace.events import AnyEvent

Show = Callable[["AnyEvent"], None]

SERVER, RUN = "Another program's server", "inside"
TRACE = "record the run; compressed where FILE ends in .gz"
INSIDE = "show the rounds that draftscope-vllm records in the server"
OF_SERVER = (*command_options.OF_SERVERS, "max_new_tokens", "raw")


@takes(chosen=command_options.settings_options(), loading=command_options.MODEL_OPTIONS)
def decode(
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="the text to continue; '-' reads standard input")],
    loading: Given,
    chosen: Given,
    *,
    trace: Annotated[Path | None, command_options.make_option(TRACE, "FILE", command_options.OUTPUT)] = None,
    server: Annotated[str | None, command_options.make_option("a vLLM that writes the text", "URL", SERVER)] = None,
    inside: Annotated[bool, command_options.make_option(INSIDE, None, SERVER, "--inside")] = False,
    json: command_options.Json = False,
) -> int:
    """Decode a prompt: print the text while it is written, then a summary on stderr.

    Settings are checked before a model is loaded. With --server URL --inside a vLLM writes the text, and the rounds are
    those that draftscope-vllm records in it.

    Examples: draftscope decode "Once upon a time" --drafter sampled-tree --temperature 0.8

    draftscope decode PROMPT --target MODEL --drafter eagle3:HEAD --trace run.jsonl.gz
    """
    text = _text(prompt)
    if server is not None or inside:
        _refuse_beside_a_server(server, inside, [*loading, *chosen])
        return _inside(text, str(server), chosen, trace, json)
    load, drafter = command_options.models(loading, chosen.get("drafter"))
    settings = command_options.settings(chosen, drafter)
    from draftscope import drafters
    from draftscope.decode.availability import default_drafter
    from draftscope.decode.lane import Lane
    from draftscope.decode.race import race

    drafters.find(settings.drafter)
    engine = command_options.load(load)
    if drafter is None:
        settings = settings.model_copy(update={"drafter": default_drafter(engine)})
    _say_what_is_not_read(settings.drafter, chosen)
    opening = engine.opening(text, Lane.of(engine, settings))
    with terminal.show_progress("Measuring") as watch:
        lane = last(opening, watch)
    with _shown(settings.max_new_tokens if json else None) as show:
        events, lost = _decode(race([lane]), show, trace)
    return _print_result(events, json, lost)


def _say_what_is_not_read(drafter: str, chosen: Given) -> None:
    from draftscope.drafters.registry import unread

    if names := unread([drafter], chosen):
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in names)
        terminal.print_note(f"'{drafter}' does not read {flags}.")


def _print_result(events: list[AnyEvent], json: bool, lost: DraftscopeError | None) -> int:
    run = Result(tuple(events))
    done = run_report.decoded(run)
    if json:
        print(run_report.as_json(done))
    else:
        print(run_report.summary(done.metrics), file=sys.stderr)
    if sentence := unhelpful(run.start, run.round_events):
        terminal.print_note(sentence)
    if lost is not None:
        raise lost
    return ExitCode.OK


def _text(given: str) -> str:
    try:
        text = sys.stdin.read() if given == "-" else given
    except UnicodeError:
        raise DraftscopeError("The prompt is not valid UTF-8; convert it first.") from None
    admit({"prompt": text})
    return text


def _refuse_beside_a_server(server: str | None, inside: bool, given: Sequence[str]) -> None:
    if server is None or not inside:
        raise DraftscopeError(
            "Give --server URL and --inside together; 'draftscope race' shows a server without a recorder."
        )
    if wrong := [f"--{name.replace('_', '-')}" for name in given if name not in OF_SERVER]:
        raise DraftscopeError(f"The server at {server} decides that itself; leave out {', '.join(wrong)}.")


def _inside(text: str, server: str, chosen: Given, trace: Path | None, json: bool) -> int:
    from draftscope.servers.field import Field, request_of

    settings = command_options.settings(chosen)
    with Field.open({"inside": server}) as field:
        steps = field.inside(field.prompt(text, settings), request_of(settings), RUN)
        events, lost = _decode(steps, (lambda _: None) if json else _print, trace)
    code, end = _print_result(events, json, lost), events[-1]
    if end.kind == "run_end" and end.reason == "error":
        raise DraftscopeError(end.message)
    return code


def _decode(
    steps: Steps[AnyEvent | None, object], show: Show, trace: Path | None
) -> tuple[list[AnyEvent], DraftscopeError | None]:
    """All events of a run, shown and written as they come, and why the trace was not written whole, if so: the run is
    not lost with it. Ctrl-C ends the run within a round and its trace whole."""
    from draftscope.trace import files

    events: list[AnyEvent] = []
    lost: DraftscopeError | None = None
    with interruptible() as interrupted:
        coming: Iterator[AnyEvent] = said(stoppable(steps, interrupted))
        try:
            for event in coming if trace is None else files.write_through(trace, coming):
                events.append(event)
                show(event)
        except DraftscopeError as error:
            if trace is None or not events or events[-1].kind != "run_end":
                raise
            lost = error
        if interrupted():
            raise KeyboardInterrupt
    return events, lost


@contextmanager
def _shown(limit: int | None) -> Iterator[Show]:
    """Counts the tokens of the prompt on a terminal's stderr; then those that are written, of `limit`, or without one
    writes the text as rounds bring it."""
    with terminal.progress("tokens") as bar:
        task, written = bar.add_task("Reading the prompt", total=None), 0

        def show(event: AnyEvent) -> None:
            nonlocal written
            if event.kind == "run_start":  # the prompt's last token is the first row of the first round
                bar.update(task, total=event.prompt_tokens - 1)
            elif event.kind == "prefill":
                bar.update(task, completed=event.tokens)
            elif event.kind == "round":
                if limit is None and not written:
                    bar.stop()
                written += len(event.emitted)
                bar.update(task, description="Decoding", total=limit, completed=written)
            if limit is None:
                _print(event)

        yield show


def _print(event: AnyEvent) -> None:
    """The text that a round brings, and a line's end at the end of the run."""
    if event.kind == "round":
        print(run_report.printable(event.text_delta), end="", flush=True)
    elif event.kind == "run_end":
        print(flush=True)
