"""The first picture: the header and both texts of the recorded run, as HTML that needs no script. The instrument takes
it away once it has painted (host/front.js)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from draftscope.base.assets import assets
from draftscope.trace.events import AnyEvent, RunEnd, RunStart
from draftscope.trace.html import css_variables, palette, root_colours

DARK = "@media (prefers-color-scheme: dark) {{ :root {{ {} }} }}"
PAGE = Markup(
    '<div id="ds-front"><style>{style}</style><div class="ds-front-top"><h1>Draftscope</h1><nav aria-label="Doors">'
    '{links}</nav></div><div class="ds-front-composer"></div><div class="ds-front-lanes">{lanes}</div></div>'
)
LINK = Markup('<a href="?door={}">{}</a>')
LANE = Markup('<div class="ds-front-lane"><h3>{title}</h3><p><span><i>{prompt}</i>{between}{text}</span></p></div>')
FIRST_PROMPT = 600  # characters of its end, as in the instrument


def picture(events: Sequence[AnyEvent], doors: Iterable[tuple[str, str]]) -> str:
    """Of the run that the page opens with, none if there is none; `doors` are names and titles beside Watch's own."""
    starts = {event.lane: event for event in events if isinstance(event, RunStart)}
    if not starts:
        return ""
    links = Markup("").join(LINK.format(name, title) for name, title in [("watch", "Watch"), *doors])
    texts = {event.lane: event.text for event in events if isinstance(event, RunEnd)}
    lanes = Markup("").join(_lane(start, texts.get(lane, "")) for lane, start in starts.items())
    return str(PAGE.format(style=Markup(_style()), links=links, lanes=lanes))


def _lane(start: RunStart, text: str) -> Markup:
    prompt, between = start.prompt[-FIRST_PROMPT:], "\n\nanswer: " if start.rendered else ""
    return LANE.format(title=start.title or start.drafter, prompt=prompt, between=between, text=text)


def _style() -> str:
    css = (assets() / "front.css").read_text(encoding="utf-8")
    return f"{root_colours()}\n{DARK.format(css_variables(palette()['dark']))}\n{css}"
