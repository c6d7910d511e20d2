"""`draftscope serve`: opens the dashboard."""

from __future__ import annotations

from typing import Annotated

from draftscope_app.cli import command_options, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.extra import Host, NoBrowser, Port, refuse_missing
from draftscope_app.cli.fields import Given, takes

DRAFTER = "drafter that is chosen when the page opens; with a head: eagle3:MODEL"


@takes(loading=command_options.SERVED)
def serve(
    loading: Given,
    host: Host = "127.0.0.1",
    port: Port = 7860,
    no_browser: NoBrowser = False,
    drafter: Annotated[str | None, command_options.make_option(DRAFTER, "NAME")] = None,
) -> int:
    """Open the dashboard in a browser. Stop it with Ctrl-C.

    Limits and the log are set by environment variables; without them no log is written.
    """
    refuse_missing()
    from draftscope_app.serve import server

    load, named = command_options.models(loading, drafter)
    chosen = named if drafter is not None else None  # the page chooses for itself
    server.serve(host, port, load, chosen, open_browser=not no_browser, say=terminal.loading_lines())
    return ExitCode.OK
