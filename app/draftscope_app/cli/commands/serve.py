"""`draftscope serve`: opens the dashboard."""

from __future__ import annotations

import argparse
import os

from draftscope.base.errors import DraftscopeError
from draftscope_app.cli.commands import options

EXTRA = ("gradio", "pandas", "plotly")  # installed with draftscope[app] only


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=7860, help="port to listen on (default: 7860)")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    parser.add_argument("--drafter", metavar="NAME", help="who drafts when the page opens; with a head: eagle3:MODEL")
    options.add_loading(parser)


def run(args: argparse.Namespace) -> int:
    """Serves until Ctrl-C. Limits and the like come from the environment; a log is written only if it asks for one."""
    from draftscope_app.engine.config import Environment
    from draftscope_app.serve import server

    environment = Environment.read({"DRAFTSCOPE_LOG": "off"} | os.environ)

    try:
        server.serve(
            host=args.host,
            port=args.port,
            load=options.models(args),
            drafter=args.drafter,
            open_browser=not args.no_browser,
            environment=environment,
        )
    except ModuleNotFoundError as error:
        if error.name not in EXTRA:
            raise
        remedy = "install it with: pip install 'draftscope[app]'"
        raise DraftscopeError(f"The dashboard needs {error.name}; {remedy}.") from None
    return 0
