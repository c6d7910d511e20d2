"""What only `draftscope[app]` installs, for commands that open the dashboard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Annotated

from draftscope.base.errors import DraftscopeError
from draftscope_app.cli import command_options, terminal
from draftscope_app.cli.fields import whole

Port = Annotated[int, command_options.make_option("port to listen on", "N", parser=whole)]
Host = Annotated[str, command_options.make_option("address to listen on", "ADDRESS")]
NoBrowser = Annotated[bool, command_options.make_option("do not open a browser", None, None, "--no-browser")]

REMEDY = "install it with: pip install 'draftscope[app]'"
PACKAGES = ("gradio", "plotly", "segno")


def refuse_missing() -> None:
    """For a dashboard that lacks a package: before anything of it is imported, its port taken or an engine started."""
    for package in PACKAGES:
        if find_spec(package) is None:
            raise DraftscopeError(f"The dashboard needs {package}; {REMEDY}.")


@contextmanager
def plots(what: str) -> Iterator[None]:
    """Without plotly a note says that it is needed for `what`, and nothing of it is made."""
    try:
        yield
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("plotly"):
            raise
        terminal.print_note(f"{what} needs plotly; {REMEDY}.")
