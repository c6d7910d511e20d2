"""`draftscope class`: serves the dashboard to a room and opens the projector."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from draftscope_app.cli import command_options, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.extra import Host, NoBrowser, Port, refuse_missing
from draftscope_app.cli.fields import Given, takes
from draftscope_app.serve.network import EVERYWHERE

PROJECTOR = "/class"


@takes(loading=command_options.SERVED)
def class_(
    loading: Given,
    deck: Annotated[
        Path | None, typer.Argument(metavar="DECK", help="a file of questions; default: those of the lessons")
    ] = None,
    host: Host = EVERYWHERE[0],
    port: Port = 7860,
    no_browser: NoBrowser = False,
) -> int:
    """Open a class: phones on the same network join it by a code, predict what a round does, and see it.

    Everybody on the network can open the dashboard while it runs. Stop it with Ctrl-C. app/CLASS.md is the teacher's
    guide; it says how to write a deck of your own.
    """
    refuse_missing()
    from draftscope_app.doors.learn.classroom.deck import read, shipped
    from draftscope_app.serve import server

    questions = read(deck) if deck else shipped()
    load, _ = command_options.models(loading, None)
    opens = server.Opens(PROJECTOR, "The class's projector", (questions,))
    server.serve(host, port, load, open_browser=not no_browser, opens=opens, say=terminal.loading_lines())
    return ExitCode.OK
