"""`draftscope decode PROMPT`: the text live as rounds come, then one summary line; or one JSON object."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from draftscope.base.steps import last
from draftscope_app.cli import command_options, terminal
from draftscope_app.cli.fields import Given, takes
from draftscope_app.cli.live_run import Show, Trace, follow, print_result, print_round

if TYPE_CHECKING:
    from draftscope.trace.events import AnyEvent


@takes(chosen=command_options.settings_options(), loading=command_options.MODEL_OPTIONS)
def decode(
    prompt: command_options.PromptText,
    loading: Given,
    chosen: Given,
    *,
    trace: Trace = None,
    json: command_options.Json = False,
) -> int:
    """Decode a prompt: print the text while it is written, then a summary on stderr.

    Settings are checked before a model is loaded.

    Examples: draftscope decode "Once upon a time" --drafter sampled-tree --temperature 0.8

    draftscope decode PROMPT --target MODEL --drafter eagle3:HEAD --trace run.jsonl.gz
    """
    text = command_options.prompt_text(prompt)
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
        events, lost = follow(race([lane]), show, trace)
    return print_result(events, json, lost)


def _say_what_is_not_read(drafter: str, chosen: Given) -> None:
    from draftscope.drafters.registry import unread

    if names := unread([drafter], chosen):
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in names)
        terminal.print_note(f"'{drafter}' does not read {flags}.")


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
                print_round(event)

        yield show
