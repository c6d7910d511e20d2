"""The folder of a site: a page for each door, the instrument, and what they show, each a script of its own.

A page that is opened from a disk may not fetch. It may run scripts: each file of data calls one function with its name
and its content, gzipped and in base64 (runs/files.js).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from draftscope.base.errors import DraftscopeError
from draftscope.trace import html
from draftscope.trace.glossary import GLOSSARY
from draftscope_app.lab.site.forecast_tables import tables
from draftscope_app.lab.site.recorded_servers import recorded_servers
from draftscope_app.lab.site.shelf import RecordedRun
from draftscope_app.page.page import PageDoor
from draftscope_app.page.theme import page_css
from draftscope_app.reports.render import render
from draftscope_app.serve.doors import page_doors

HERE = Path(__file__).parent
MOUNT = "lab/site"
FIRST_CARD = f"{MOUNT}/runs"
WATCH = PageDoor("watch", "Watch", "", (), {})
SERVED = Markup(
    "Recorded: this page is made of files, and nothing runs here. To run your own prompts, get the code of Draftscope "
    "and type <code>make run</code>."
)


@dataclass(frozen=True)
class Built:
    """What a folder holds."""

    pages: int
    runs: int
    size: int  # bytes


def prepare(folder: Path) -> None:
    """Makes the folder. Raises `DraftscopeError` where it cannot be made, or is not empty."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise DraftscopeError(f"'{folder}' is not empty; name a new folder.")
    except OSError as error:
        raise DraftscopeError(f"'{folder}' cannot be made ({error.strerror}); name another folder.") from None


def build(folder: Path, runs: Sequence[RecordedRun]) -> Built:
    """Writes all files of the site into the folder. Raises `DraftscopeError` where one cannot be written."""
    doors = [WATCH, *page_doors()]
    answered = answers(doors)
    texts = {**pages(doors), "draftscope.js": script(doors, runs, list(answered)), "site.css": style(doors)}
    texts |= {f"{name}.js": data_script(name, text) for name, text in data(runs, answered).items()}
    try:
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise DraftscopeError(f"'{folder}' cannot be written ({error.strerror}); name another folder.") from None
    return Built(len(doors), len(runs), sum(len(text.encode()) for text in texts.values()))


def pages(doors: Sequence[PageDoor]) -> dict[str, str]:
    """A page for each door, by its file."""
    links = [(file_of(door), door.name, door.title) for door in doors]
    return {
        file_of(door): render(
            HERE / "page.html", door=door.name, title=door.title, links=links, served=SERVED,
            still=[task.still() for task in door.tasks],
        )
        for door in doors
    }  # fmt: skip


def file_of(door: PageDoor) -> str:
    return "index.html" if door is WATCH else f"{door.name}.html"


def script(doors: Sequence[PageDoor], runs: Sequence[RecordedRun], answered: Sequence[str]) -> str:
    """The instrument with the cards of all tasks that need no address of their own on a server, and those of the
    site. `answered` names what a file answers in a server's stead."""
    values = {name: value for door in doors for task in door.tasks for name, value in task.hand_over().items()}
    cards = {mount: path for door in doors for mount, path in door.cards.items() if not (path / "server.py").exists()}
    site = {f"{MOUNT}/{path.parent.name}": path.parent for path in sorted(HERE.glob("*/card.js"))}
    return html.script(
        {FIRST_CARD: site[FIRST_CARD]} | cards | site,  # the first one stands in for the server that others call
        **values,
        metrics={entry.name: entry.meaning for entry in GLOSSARY},
        doors={door.name: door.sentence for door in doors if door is not WATCH},
        files={door.name: file_of(door) for door in doors},
        served=SERVED,
        runs=[run.listed() for run in runs],
        titles={run.drafter: run.title for run in runs},
        answers=answered,
    )


def data(runs: Sequence[RecordedRun], answered: Mapping[str, Any]) -> dict[str, str]:
    """Content by the name of its file."""
    values: dict[str, Any] = {**answered, **recorded_servers(), "forecast": tables()}
    return {f"run/{run.name}": run.text for run in runs} | {name: json.dumps(value) for name, value in values.items()}


def answers(doors: Sequence[PageDoor]) -> Mapping[str, Any]:
    """What a server's functions would answer."""
    return {f"answer/{name}": value for door in doors for task in door.tasks for name, value in task.recorded().items()}


def data_script(name: str, text: str) -> str:
    return f'draftscopeFile("{name}", "{html.packed(text)}");\n'


def style(doors: Sequence[PageDoor]) -> str:
    """The dashboard's own, and what only a page without Gradio and its cards need."""
    colours = f"{html.root_colours()}\n.dark {{ {html.css_variables(html.palette()['dark'])} }}"
    page = page_css(path for door in doors for path in door.styles)
    sheets = (HERE / "site.css", *sorted(HERE.glob("*/page.css")))
    return "\n".join((colours, page, *(sheet.read_text(encoding="utf-8") for sheet in sheets)))
