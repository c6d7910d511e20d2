"""The calculator of the Decide stage: sliders and a curve that the browser redraws, from one record of costs."""

from __future__ import annotations

import json
from dataclasses import asdict
from html import escape

import gradio as gr

from draftscope.advise.calculator import Terms
from draftscope.base.assets import assets

STYLE = """<style>
.ds-calculator { display: grid; color: var(--ds-ink); gap: 8px 32px; align-items: center; }
.ds-calculator { grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); }
.ds-calculator > p { grid-column: 1 / -1; }
.ds-calculator input { accent-color: var(--ds-ink); }
.ds-calculator label { display: grid; grid-template-columns: 1fr 2fr 4em; gap: 8px; align-items: center; }
.ds-calculator-headline { font-size: 1.4em; font-weight: 600; margin: 0 0 8px; }
.ds-calculator svg { width: 100%; max-width: 560px; font-size: 12.5px; fill: currentColor; text-anchor: middle; }
.ds-calculator .one { stroke: currentColor; stroke-width: 2; }
.ds-calculator .speed { fill: none; stroke: currentColor; stroke-width: 2; stroke-dasharray: 6 3; }
.ds-calculator .best { font-weight: 600; }
</style>"""


def calculator(terms: Terms) -> gr.HTML:
    """A card by itself. It needs nothing else of the page."""
    source = (assets() / "instrument" / "decide" / "calculator.js").read_text(encoding="utf-8")
    script = f"{source.replace('export ', '')}\nstart(element.querySelector('.ds-calculator'));"
    return gr.HTML(value=card(terms), apply_default_css=False, elem_id="ds-calculator", js_on_load=script)


def card(terms: Terms) -> str:
    """Its HTML, before the first curve."""
    sliders = (
        ("acceptance", "Acceptance, first token", 0, 0.99, 0.01, terms.acceptance[0]),
        ("draft", "Draft step, c, in rounds of plain", 0, 1, 0.01, terms.c),
        ("rows", "Cost of further rows, times the measured", 0, 3, 0.05, 1),
        ("requests", "Concurrent requests", 1, 64, 1, 1),
        ("length", "Tokens of an answer", 8, 2048, 8, 128),
    )
    inputs = "".join(
        f'<label><span>{escape(label)}</span><input type="range" name="{name}" min="{low}" max="{high}" step="{step}" '
        f'value="{round(value, 2):g}"><output></output></label>'
        for name, label, low, high, step, value in sliders
    )
    return (
        f'{STYLE}<section class="ds-calculator" data-terms="{escape(json.dumps(asdict(terms)))}" aria-label="Forecast">'
        f'<p class="ds-calculator-headline" role="status"></p><svg role="img"></svg><div>{inputs}</div>'
        f"<p>A forecast for {escape(terms.drafter)}, over plain decoding of as many answers; costs are "
        f"{escape(terms.source)}.</p></section>"
    )
