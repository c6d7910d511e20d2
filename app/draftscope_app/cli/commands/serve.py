"""`draftscope serve`: opens the dashboard."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from draftscope_app.cli import options
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.extra import dashboard
from draftscope_app.cli.fields import Given, takes, whole

TARGET = "hub id, folder, GGUF file, or a name: smollm2, embedded, ...; default: smollm2, else embedded"

app = typer.Typer(add_completion=False)


@app.command()
@takes(loading=options.model_options(about={"target": TARGET}))
def serve(
    loading: Given,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(parser=whole, metavar="N", help="port to listen on")] = 7860,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="do not open a browser")] = False,
    drafter: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="drafter that is chosen when the page opens; with a head: eagle3:MODEL"),
    ] = None,
) -> int:
    """Open the dashboard in a browser. Stop it with Ctrl-C.

    Limits and the log are set by environment variables; without them no log is written.
    """
    with dashboard():
        from draftscope_app.engine.config import Environment
        from draftscope_app.serve import server

        environment = Environment.read({"DRAFTSCOPE_LOG": "off"} | os.environ)
        load, named = options.models(loading, drafter)
        server.serve(
            host=host,
            port=port,
            load=load,
            drafter=named if drafter is not None else None,  # the page chooses for itself
            open_browser=not no_browser,
            environment=environment,
        )
    return ExitCode.OK
