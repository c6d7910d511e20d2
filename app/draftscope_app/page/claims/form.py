"""The drawer with the claims. What is pressed there is handled in the browser; Python is not asked."""

from __future__ import annotations

import gradio as gr

from draftscope.claims.saved import shipped
from draftscope_app.page.claims.view import claims

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


def drawer() -> None:
    """Below the instrument."""
    with gr.Accordion("24 claims put to the test", open=False, elem_id="ds-claims"):
        gr.HTML(value=claims(shipped()), apply_default_css=False, elem_id="ds-claims-list", js_on_load=ON_PRESS)
