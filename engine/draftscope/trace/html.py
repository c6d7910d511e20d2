"""A recorded run as one HTML file that plays by itself: no server, no network, no model.

`page(events)` is text in, text out: the instrument of assets/instrument, unchanged, and the events. They lie inside
gzipped, as base64, so that nothing a model wrote can end the script that holds them. Imports no torch and no screen.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError, write_text
from draftscope.trace.events import AnyEvent, Burst, Round, RunStart
from draftscope.trace.files import line
from draftscope.trace.linker import link

NOTHING_OUTSIDE = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
PUBLIC = "host/public.js"  # names all that may be called from outside
ABOUT = (
    "One recorded run, whole in this file; nothing is computed here. Prompts of your own, verdicts, servers and "
    "lessons need <code>draftscope serve</code>."
)
TITLE_LENGTH = 60
IFRAME = (
    '<iframe srcdoc="{page}" title="A Draftscope run" sandbox="allow-scripts allow-downloads" '
    'style="width: 100%; height: {height}px; border: 0"></iframe>'
)


@dataclass(frozen=True)
class Shown:
    """A page that a notebook shows where it stands; `html` is the whole file."""

    html: str
    height: int

    def save(self, path: str | Path) -> None:
        """Writes the whole file. Raises `DraftscopeError` if it cannot be written."""
        write_text(path, self.html)

    def _repr_html_(self) -> str:
        return IFRAME.format(page=escape(self.html), height=self.height)

    def __repr__(self) -> str:
        return f"Shown(html=<{len(self.html)} characters>, height={self.height})"


def page(events: Iterable[AnyEvent]) -> str:
    """The whole file. Several lanes of one run play side by side; of several runs the first is taken."""
    kept = first_run(events)
    if not any(isinstance(event, Round | Burst) for event in kept):
        raise DraftscopeError("These events hold no round, so there is nothing to play; record a run with record=True.")
    start = next((event for event in kept if isinstance(event, RunStart)), None)
    style = (assets() / "player.css").read_text(encoding="utf-8")
    colours = f"{root_colours()}\n.dark {{ {css_variables(palette()['dark'])} }}"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{NOTHING_OUTSIDE}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(_title(start.prompt if start else ''))}</title><style>{colours}\n{style}</style>"
        f"<script>{script()}</script></head><body>"
        f'<header><h1>Draftscope</h1><p>{ABOUT}</p><button type="button" id="theme">◐ Theme</button></header>'
        "<noscript><p>This page plays a recorded run; it needs scripts to do so, and fetches nothing.</p></noscript>"
        '<main><draftscope-instrument></draftscope-instrument></main><script type="text/plain" id="run">'
        f"{packed(_delta(kept))}</script><script>Draftscope.playAlone();</script></body></html>\n"
    )


def first_run(events: Iterable[AnyEvent]) -> list[AnyEvent]:
    """The events of the run that comes first."""
    every = list(events)
    return [event for event in every if event.run == every[0].run]


def script(cards: Mapping[str, Path] | None = None, /, **more: Any) -> str:
    """The instrument as one classic script behind one name, `Draftscope`; it starts with the theme and with `more`.

    `cards` are folders with a `card.js` each, by the names under which their modules import from each other; see
    assets/instrument/README.md.
    """
    mounts = cards or {}
    files = {f"{mount}/card.js": folder.name for mount, folder in mounts.items()}
    linked = link(assets() / "instrument", PUBLIC, *files, mounts=mounts)
    given = ", ".join(f"{name}: {inline(value)}" for name, value in {"theme": palette(), **more}.items())
    listed = ", ".join(f"{{ name: {inline(name)}, ...modules[{inline(file)}].card }}" for file, name in files.items())
    return (
        f"(() => {{ const modules = {linked};\nwindow.Draftscope = modules[{inline(PUBLIC)}].Draftscope;\n"
        f"Draftscope.start({{ {given}, cards: [{listed}] }}); }})();"
    )


def palette() -> dict[str, Any]:
    """{"light": {name: colour}, "dark": {...}, "sans": faces, "mono": faces}: assets/theme.json."""
    loaded: dict[str, Any] = json.loads((assets() / "theme.json").read_text(encoding="utf-8"))
    return loaded


def css_variables(values: Mapping[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in values.items())


def root_colours() -> str:
    """The light colours and the faces as CSS, for the whole document."""
    return f":root {{ {css_variables(palette()['light'] | {name: palette()[name] for name in ('sans', 'mono')})} }}"


def inline(value: object) -> str:
    """JSON that may stand inside a script element."""
    return json.dumps(value).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def packed(text: str) -> str:
    """Gzipped, as base64; the same text always gives the same."""
    return b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii")


def _delta(events: list[AnyEvent]) -> str:
    """The run in one piece, as the page's own feed writes it."""
    return f'{{"seq": 0, "run": "r1", "source": "recorded", "state": "done", "ev": [{",".join(map(line, events))}]}}'


def _title(prompt: str) -> str:
    words = " ".join(prompt.split())
    return f"Draftscope: {words if len(words) <= TITLE_LENGTH else words[:TITLE_LENGTH].rstrip() + ' …'}"
