"""`draftscope inside URL PROMPT`: an answer of a vLLM as a run, with every decision of its rounds."""

from __future__ import annotations

from typing import Annotated

import typer

from draftscope.base.errors import DraftscopeError
from draftscope_app.cli import command_options
from draftscope_app.cli.fields import Given, takes
from draftscope_app.cli.live_run import Trace, follow, print_result, print_round

RUN = "inside"  # its name in a trace
SETTINGS = command_options.settings_options(of=(*command_options.OF_SERVERS, "max_new_tokens", "raw"))


@takes(chosen=SETTINGS)
def inside(
    url: Annotated[str, typer.Argument(metavar="URL", help="a vLLM with draftscope-vllm")],
    prompt: command_options.PromptText,
    chosen: Given,
    *,
    trace: Trace = None,
    json: command_options.Json = False,
) -> int:
    """Have a vLLM continue a prompt, and show and record its rounds as draftscope-vllm sees them inside it.

    Example: draftscope inside http://127.0.0.1:8000 "Once upon a time" --trace run.jsonl.gz
    """
    from draftscope.servers.field import Field, request_of

    text = command_options.prompt_text(prompt)
    settings = command_options.settings(chosen)
    with Field.open({RUN: url}) as field:
        steps = field.inside(field.prompt(text, settings), request_of(settings), RUN)
        events, lost = follow(steps, (lambda _: None) if json else print_round, trace)
    code, end = print_result(events, json, lost), events[-1]
    if end.kind == "run_end" and end.reason == "error":
        raise DraftscopeError(end.message)
    return code
