"""`draftscope site build DIR` makes the page as files; `draftscope site record` records the runs that it plays."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from draftscope.base.errors import DraftscopeError
from draftscope_app.cli import terminal
from draftscope_app.cli.exit_codes import ExitCode

Quick = Annotated[bool, typer.Option("--quick", help="short runs, each once: minutes on two cores")]

app = typer.Typer(add_completion=False, help="Build the dashboard as static files, which play recorded runs.")


@app.command()
def build(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="a new or empty folder")],
    runs: Annotated[Path | None, typer.Option(metavar="DIR", help="recorded runs; default: those that come along")] = (
        None
    ),
    quick: Annotated[bool, typer.Option("--quick", help="record here what is missing, in short runs")] = False,
) -> int:
    """Build the dashboard as files that need no server: a static Space, GitHub Pages, a USB stick.

    It plays recorded runs, lessons and scenes, has the calculator and a forecast, and fetches nothing from elsewhere.
    """
    from draftscope_app.lab.site import shelf, site_files
    from draftscope_app.lab.site.texts import FOLDER

    site_files.prepare(folder)
    shelved = runs or FOLDER
    if quick and shelf.missing(shelved):
        shelved = runs or folder.with_name(f"{folder.name}-runs")
        _record(shelved, quick=True)
    if absent := shelf.missing_words(shelved):
        terminal.print_note(absent)
    built = site_files.build(folder, shelf.read(shelved))
    print(
        f"'{folder}' has {built.pages} pages and {built.runs} runs, {built.size / 1e6:.1f} MB; open index.html in it."
    )
    return ExitCode.OK


@app.command()
def record(
    folder: Annotated[Path | None, typer.Argument(metavar="DIR", help="default: the checkout's own recordings")] = None,
    quick: Quick = False,
) -> int:
    """Record the runs that a site plays: every drafter at T 0 and 1, beside plain decoding.

    Whole runs are timed too, so nothing else should run meanwhile. Texts that the folder has are kept; to record one
    again, remove its file.
    """
    from draftscope_app.lab.site.texts import FOLDER

    _record(folder or FOLDER, quick)
    return ExitCode.OK


def _record(folder: Path, quick: bool) -> None:
    """What is missing of every text; a text whose models cannot be had is left out, which a line says."""
    from draftscope import load
    from draftscope_app.lab.site.shelf import missing
    from draftscope_app.lab.site.site_races import QUICK, Length, machine_of, record

    length = QUICK if quick else Length()
    for text in missing(folder):
        try:
            with load(text.target) as engine:
                terminal.print_note(f"recording '{text.name}' on {machine_of(engine)}.")
                for name in record(engine, text, length, folder):
                    terminal.print_status(name)
        except DraftscopeError as error:
            terminal.print_note(f"'{text.name}' is left out: {error}")
