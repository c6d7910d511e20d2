"""The calculator of the Decide stage: sliders and a curve that the browser redraws, from one record of costs."""

from __future__ import annotations

import json
from dataclasses import asdict
from html import escape

import gradio as gr

from draftscope.advise.calculator import Terms
from draftscope.base.assets import assets
from draftscope_app.page import notes

STYLE = """<style>
.ds-calculator { display: grid; color: var(--ds-ink); gap: 4px 24px; align-items: center; }
.ds-calculator { grid-template-columns: repeat(auto-fit, minmax(min(100%, 300px), 1fr)); }
.ds-calculator > :is(h2, p) { grid-column: 1 / -1; }
.ds-calculator > p:last-child { color: var(--ds-muted); font-size: 12px; }
.ds-calculator input { accent-color: var(--ds-ink); }
.ds-calculator label { display: grid; grid-template-columns: 15ch minmax(60px, 1fr) 3em; gap: 10px; }
.ds-calculator label { align-items: center; min-height: 34px; font-size: 12.5px; }
.ds-calculator .ds-calculator-headline { font-size: 16px; font-weight: 600; }
.ds-calculator svg { width: 100%; max-width: 440px; font-size: 12.5px; fill: currentColor; text-anchor: middle; }
.ds-calculator .one { stroke: currentColor; stroke-width: 2; }
.ds-calculator .speed { fill: none; stroke: currentColor; stroke-width: 2; stroke-dasharray: 6 3; }
.ds-calculator .best { font-weight: 600; }
.ds-calculator .side { text-anchor: start; }
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
        ("draft", "Draft step, c, in plain rounds", 0, 1, 0.01, terms.c),
        ("rows", "Cost of rows, times measured", 0, 3, 0.05, 1),
        ("requests", "Concurrent requests", 1, 64, 1, 1),
        ("length", "Tokens of an answer", 8, 2048, 8, 128),
    )
    inputs = "".join(
        f'<label><span>{escape(label)}</span><input type="range" name="{name}" min="{low}" max="{high}" step="{step}" '
        f'value="{round(value, 2):g}"><output></output></label>'
        for name, label, low, high, step, value in sliders
    )
    return (
        f'{STYLE}<section class="ds-calculator" data-terms="{escape(json.dumps(asdict(terms)))}" aria-label="Estimate">'
        f"{notes.stage(1, 'Estimate')}"
        f'<p class="ds-calculator-headline" role="status"></p><svg role="img"></svg><div>{inputs}</div>'
        f"<p>An estimate for {escape(terms.drafter)}, over plain decoding of as many answers; costs are "
        f"{escape(terms.source)}. They are of the run that Watch opens with, which was chosen because it gains."
        "</p></section>"
    )
