"""The drawer with the claims. Each verdict is hidden until it was predicted, or until it is asked for: what is pressed
is handled in the browser, Python is not asked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gradio as gr
from markupsafe import Markup

from draftscope.base.machine import machine_words
from draftscope.claims.claim import ClaimVerdict
from draftscope.claims.saved import shipped
from draftscope.forecast.economics import forecast_of_claim
from draftscope_app.doors.decide.judged import OPEN, SHORT
from draftscope_app.doors.decide.page import EVIDENCE
from draftscope_app.engine.plural import count
from draftscope_app.page import notes
from draftscope_app.page.task import TaskPage
from draftscope_app.reports.render import render

Values = Mapping[str, Any]

TEMPLATE = Path(__file__).with_name("claims.html")

CHOICES = (ClaimVerdict.HOLDS, ClaimVerdict.ONLY_IF, ClaimVerdict.FAILS)
ON_PRESS = """element.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.hasAttribute("data-all")) {
        element.querySelectorAll(".ds-found").forEach((found) => { found.hidden = false; });
        return;
    }
    const claim = button.closest("li");
    if (!claim || claim.hasAttribute("data-guessed")) return;
    const right = button.dataset.guess === claim.dataset.verdict;
    claim.setAttribute("data-guessed", right);
    claim.querySelector(".ds-right").textContent = right ? "You expected that." : "You expected another one.";
    claim.querySelectorAll("[data-guess]").forEach((each) => { each.disabled = true; });
    button.setAttribute("aria-pressed", "true");
    claim.querySelector(".ds-found").hidden = false;
    const guessed = element.querySelectorAll("[data-guessed]").length;
    const hits = element.querySelectorAll("[data-guessed=true]").length;
    element.querySelector(".ds-score").textContent = `${hits} of ${guessed} expected.`;
});"""


STILL = Markup(
    '<details id="ds-claims" class="ds-card"><summary>24 claims put to the test</summary>'
    '<div id="ds-claims-list">{}</div></details>'
    '<script>((element) => {{ {} }})(document.getElementById("ds-claims-list"));</script>'
)


class Page(TaskPage):
    """A drawer among the evidence."""

    @classmethod
    def still(cls) -> Markup:
        return STILL.format(Markup(claims(shipped())), Markup(ON_PRESS))

    def lay_out(self, area: str) -> None:
        if area == EVIDENCE:
            with gr.Accordion("24 claims put to the test", open=False, elem_id="ds-claims", elem_classes=["ds-card"]):
                notes.html(claims(shipped()), "ds-claims-list", ON_PRESS)


def claims(saved: Values) -> str:
    """The whole list. `saved` is what `draftscope claims --save` wrote."""
    every = saved["claims"]
    judged = sum(claim["verdict"] not in OPEN for claim in every)
    machine = machine_words(saved["machine"])
    where = f" Measured on: {machine}." if machine else ""
    about = (
        f"What people say about speculative decoding: {count(len(every), 'claim')}, {judged} with a verdict from "
        f"measurements.{where} Choose what you expect, and the verdict is shown; your answers stay on this page."
    )
    return render(TEMPLATE, about=about, claims=[_shown(claim) for claim in every])


def _shown(claim: Values) -> dict[str, Any]:
    """What the template shows of a claim; its choices are empty where there is no verdict to predict."""
    open_ = claim["verdict"] in OPEN
    label = str(SHORT.get(claim["verdict"], claim["verdict"]))
    return {
        "number": claim["number"],
        "sentence": claim["sentence"],
        "verdict": claim["verdict"],
        "label": label[0].upper() + label[1:],
        "choices": [] if open_ else [(choice, SHORT.get(choice, choice)) for choice in CHOICES],
        "findings": [
            ("Why" if open_ else "Measured", claim["measured"]),
            ("The formula", claim.get("formula", "")),
            ("Forecast", claim.get("forecast") or forecast_of_claim(claim["number"])),
            ("What would change it", "" if open_ else claim["change"]),
            ("How it is judged", claim["rule"]),
        ],
        "command": claim["command"],
    }
