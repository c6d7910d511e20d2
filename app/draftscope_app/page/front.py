"""The first picture, as HTML that needs no script: the header, the prompt, and of the recorded run what stands first,
both texts or on a phone a round. The instrument takes it away once it has painted (host/front.js)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from markupsafe import Markup

from draftscope.base.assets import assets
from draftscope.trace.events import AnyEvent, Round, RunEnd, RunStart
from draftscope.trace.html import css_variables, palette, root_colours

DARK = "@media (prefers-color-scheme: dark) {{ :root {{ {} }} }}"
PAGE = Markup(
    '<div id="ds-front"><style>{style}</style><div class="ds-front-top"><h1>Draftscope</h1><nav aria-label="Doors">'
    '{links}</nav></div><div class="ds-front-composer"><p>{prompt}</p></div>{round_card}'
    '<div class="ds-front-lanes">{lanes}</div></div>'
)
LINK = Markup('<a href="?door={}">{}</a>')
LANE = Markup('<div class="ds-front-lane"><h3>{title}</h3><p><span><i>{prompt}</i>{between}{text}</span></p></div>')
ROUND = Markup('<div class="ds-front-round"><h3>Round {number} of {of}</h3><ul>{rows}</ul></div>')
ROW = Markup('<li class="{fate}" style="margin-left: {indent}px"><b>{glyph}</b> {token} <i>{fate}</i></li>')
GLYPHS = {"written": "○", "accepted": "✓", "rejected": "✗", "correction": "↻", "bonus": "+"}  # others have a dot
INDENT = 12  # pixels
FIRST_PROMPT = 600  # characters of its end, as in the instrument
WORD = re.compile(r"[^\W\d_]{2}")


def picture(events: Sequence[AnyEvent], doors: Iterable[tuple[str, str]]) -> str:
    """Of the run that the page opens with, none if there is none; `doors` are names and titles beside Watch's own."""
    starts = {event.lane: event for event in events if isinstance(event, RunStart)}
    if not starts:
        return ""
    links = Markup("").join(LINK.format(name, title) for name, title in [("watch", "Watch"), *doors])
    texts = {event.lane: event.text for event in events if isinstance(event, RunEnd)}
    lanes = Markup("").join(_lane(start, texts.get(lane, "")) for lane, start in starts.items())
    drafted = [start for start in starts.values() if start.drafter != "plain"]
    card = _round(drafted[0], [event for event in events if isinstance(event, Round)]) if drafted else ""
    prompt = next(iter(starts.values())).prompt
    style = Markup(_style())
    return str(PAGE.format(style=style, links=links, prompt=prompt, round_card=card, lanes=lanes))


def _lane(start: RunStart, text: str) -> Markup:
    prompt, between = start.prompt[-FIRST_PROMPT:], "\n\nanswer: " if start.rendered else ""
    return LANE.format(title=start.title or start.drafter, prompt=prompt, between=between, text=text)


def _round(start: RunStart, rounds: Sequence[Round]) -> Markup:
    """The round that the page opens on, as the outline of its tree."""
    of_lane = [one for one in rounds if one.lane == start.lane]
    shown = _opens_on(of_lane)
    if shown is None:
        return Markup("")
    before = of_lane[shown.round - 1].emitted_raw[-1] if shown.round else start.prompt_last_raw
    rows = Markup("").join(
        ROW.format(indent=INDENT * depth, glyph=GLYPHS.get(fate, "·"), token=_visible(raw), fate=fate)
        for depth, raw, fate in [(0, before, "written"), *_below(shown, -1, 1)]
    )
    return ROUND.format(number=shown.round + 1, of=len(of_lane), rows=rows)


def _opens_on(rounds: Sequence[Round]) -> Round | None:
    """As `defaultRound` of the instrument (base/store.js) where a round has an acceptance."""
    kept = [one for one in rounds if one.accepted and not one.cut]
    both = [one for one in kept if any(node.fate == "rejected" for node in one.nodes)]
    return min(both, key=lambda one: (-_words(one), -one.accepted, one.round), default=next(iter(kept), None))


def _words(one: Round) -> float:
    """The share of its nodes that are words."""
    return sum(bool(WORD.search(_text(node.raw))) for node in one.nodes) / len(one.nodes)


def _below(one: Round, parent: int, depth: int) -> Iterator[tuple[int, str, str]]:
    """Depth, token and fate of what hangs below a node, every node right above its children."""
    for node in one.nodes:
        if node.parent == parent:
            yield depth, node.raw, node.fate
            yield from _below(one, node.id, depth + 1)
    if one.last.slot == parent:
        yield depth, one.last.raw, one.last.kind


def _text(raw: str) -> str:
    return raw.encode("latin-1").decode("utf-8", "replace")


def _visible(raw: str) -> str:
    return _text(raw).replace(" ", "·").replace("\n", "⏎")


def _style() -> str:
    css = (assets() / "front.css").read_text(encoding="utf-8")
    return f"{root_colours()}\n{DARK.format(css_variables(palette()['dark']))}\n{css}"
