"""`draftscope decode PROMPT`: the text live as rounds come, then one summary line; or one JSON object."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tqdm import tqdm

from draftscope.base.errors import DraftscopeError
from draftscope_app.cli.commands import options
from draftscope_app.cli.commands.interrupt import interruptible
from draftscope_app.reports import lanes

if TYPE_CHECKING:
    from draftscope.decode.run import Run
    from draftscope.trace.events import AnyEvent

Watch = Callable[[Iterator["AnyEvent"]], Iterator["AnyEvent"]]  # passes events on and shows them


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompt", metavar="PROMPT", help="the text to continue; '-' reads standard input")
    parser.add_argument("--trace", metavar="FILE", help="record the run, gzipped where FILE ends in .gz")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the text")
    options.add_settings(parser)
    options.add_loading(parser)


def run(args: argparse.Namespace) -> int:
    """Everything that can be wrong with the settings is said before a model is loaded."""
    prompt, settings = _prompt(args.prompt), options.settings(args)
    from draftscope import drafters

    drafters.find(settings.drafter)
    lane = options.load(args).session(prompt, settings)
    events = _decode(lane, _counted(settings.max_new_tokens) if args.json else _streamed, args.trace)
    done = lanes.lanes(events)[0].decoded()
    if args.json:
        print(lanes.as_json(done))
    else:
        print(lanes.summary(done.metrics), file=sys.stderr)
    return 0


def _prompt(given: str) -> str:
    try:
        text = sys.stdin.read() if given == "-" else given
        text.encode()
    except UnicodeError:
        raise DraftscopeError("The prompt is not valid UTF-8; convert it first.") from None
    return text


def _decode(lane: Run, shown: Watch, trace_file: str | None) -> list[AnyEvent]:
    """All events of a run, shown and written as they come. Ctrl-C ends the run within a round and its trace whole."""
    from draftscope.decode.race import race
    from draftscope.trace import files

    events: list[AnyEvent] = []
    with interruptible() as interrupted:
        coming = shown(_kept(race([lane], interrupted), events))
        if trace_file is None:
            for _ in coming:
                pass
        else:
            files.write(trace_file, coming)
        if interrupted():
            raise KeyboardInterrupt
    return events


def _kept(events: Iterator[AnyEvent], store: list[AnyEvent]) -> Iterator[AnyEvent]:
    for event in events:
        store.append(event)
        yield event


def _streamed(events: Iterator[AnyEvent]) -> Iterator[AnyEvent]:
    """Writes the text as rounds bring it."""
    for event in events:
        if event.kind == "round":
            print(lanes.printable(event.text_delta), end="", flush=True)
        yield event
    print(flush=True)


def _counted(limit: int) -> Watch:
    """Counts the tokens on a terminal's stderr."""

    def watch(events: Iterator[AnyEvent]) -> Iterator[AnyEvent]:
        with tqdm(total=limit, unit=" tokens", leave=False, disable=None, file=sys.stderr) as bar:
            for event in events:
                if event.kind == "round":
                    bar.update(len(event.emitted))
                yield event

    return watch
