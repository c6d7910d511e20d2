"""Reports as HTML, from the templates beside this module and those of the tasks. Values never become markup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from draftscope.base.assets import assets
from draftscope.trace.figure_style import Plot
from draftscope.trace.html import palette

CONFIG = {"displayModeBar": False, "responsive": True}


@dataclass(frozen=True)
class Table:
    """A table of a report: `rows` are a name and its cells; a cell is text, or `Markup` that was rendered."""

    label: str  # for screen readers
    caption: str
    head: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]


SHARED = Path(__file__).with_name("templates")


@cache
def _environment(folder: Path) -> Environment:
    return Environment(
        loader=FileSystemLoader([folder, SHARED]), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip


def render(template: Path, /, **values: Any) -> Markup:
    """The template with these values; it may use those beside it and the shared ones."""
    return Markup(_environment(template.parent).get_template(template.name).render(values))


def render_document(template: Path, title: str, /, **values: Any) -> str:
    """A template that extends document.html: a whole file with plotly, both palettes, and assets/bench.css."""
    css = (assets() / "bench.css").read_text(encoding="utf-8")
    return render(template, title=title, palette=palette(), css=css, plotly=get_plotlyjs(), draw=_draw, **values)


def _draw(plot: Plot, number: int) -> str:
    drawn: str = plot.figure.to_html(
        full_html=False, include_plotlyjs=False, config=CONFIG, div_id=f"plot-{number}", default_width="100%"
    )
    return drawn
