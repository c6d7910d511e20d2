"""The claims as HTML. Each verdict is hidden until it was predicted, or until it is asked for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from draftscope.base.machine import machine_words
from draftscope.claims.claim import ClaimVerdict
from draftscope_app.engine.plural import count

Values = Mapping[str, Any]

CHOICES = (ClaimVerdict.HOLDS, ClaimVerdict.ONLY_IF, ClaimVerdict.FAILS)
SHORT = {ClaimVerdict.ONLY_IF: "holds only sometimes"}  # where no condition follows
OPEN = (ClaimVerdict.UNMEASURED, ClaimVerdict.UNTESTED)


def claims(saved: Values) -> str:
    """The whole list. `saved` is what `draftscope claims --save` wrote."""
    every = saved["claims"]
    told = sum(claim["verdict"] not in OPEN for claim in every)
    machine = machine_words(saved["machine"])
    where = f" Measured on: {machine}." if machine else ""
    about = (
        f"What people say about speculative decoding: {count(len(every), 'claim')}, {told} with a verdict from "
        f"measurements.{where} Choose what you expect, and the verdict is shown; your answers stay on this page."
    )
    return (
        f'<p>{escape(about)}</p><p class="ds-score" role="status"></p>'
        f'<p><button type="button" data-all>Show all verdicts</button></p><ol>{"".join(map(_claim, every))}</ol>'
    )


def _claim(claim: Values) -> str:
    known = claim["verdict"] not in OPEN
    guess = _guess(claim) if known else ""
    hidden = " hidden" if known else ""
    return (
        f'<li data-verdict="{escape(claim["verdict"])}"><p class="ds-claim">{escape(claim["sentence"])}</p>{guess}'
        f'<div class="ds-found"{hidden}>{_found(claim)}</div></li>'
    )


def _guess(claim: Values) -> str:
    """One button for each verdict that a measurement can have."""
    buttons = "".join(
        f'<button type="button" aria-pressed="false" data-guess="{escape(each)}">{escape(SHORT.get(each, each))}'
        "</button>"
        for each in CHOICES
    )
    return f'<div class="ds-guess" role="group" aria-label="Your verdict on claim {claim["number"]}">{buttons}</div>'


def _found(claim: Values) -> str:
    rows = [
        ("Why" if claim["verdict"] in OPEN else "Measured", claim["found"]),
        ("The formula", claim.get("formula", "")),
        ("What would change it", claim["change"] if claim["verdict"] not in OPEN else ""),
        ("How it is judged", claim["rule"]),
    ]
    shown = "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in rows if text)
    verdict = str(SHORT.get(claim["verdict"], claim["verdict"]))
    return (
        f'<p><strong>{escape(verdict[0].upper() + verdict[1:])}</strong> <span class="ds-right"></span></p>'
        f"<dl>{shown}<dt>Command</dt><dd><code>{escape(claim['command'])}</code></dd></dl>"
    )
