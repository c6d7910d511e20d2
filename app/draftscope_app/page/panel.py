"""The panel of controls: what a visitor sets for a run, each widget once, in the order in which it is read."""

from __future__ import annotations

from typing import Any

import gradio as gr

from draftscope_app.page import bundle
from draftscope_app.page.controls import NAMES, Controls

FIRST_CHOICES = [("Draft model, chain", "draft")]  # until the engine has said what it has
LENGTHS = [
    ("always γ", "fixed"),
    ("as measured costs say", "cost"),
    ("while the draft is confident", "confidence"),
    ("transformers' heuristic", "heuristic"),
    ("SpecDec++", "specdec++"),
    ("AdaEDL", "adaedl"),
]
RULES = [
    ("block (exact)", "block"),
    ("token (exact)", "token"),
    ("typical (lossy)", "typical"),
    ("lenient (lossy)", "lenient"),
    ("top-k (lossy)", "top-k"),
]
INNER = [("n-gram", "ngram"), ("suffix", "suffix"), ("nobody", "none")]
POLICIES = [("UCB", "ucb"), ("EXP3", "exp3"), ("Thompson sampling", "thompson")]
PROMPT_ROWS = 7


def panel(defaults: Controls, most_tokens: int) -> tuple[dict[str, gr.components.Component], dict[str, Any]]:
    """Every control by name, in the order of `NAMES`; and the buttons among them."""
    d = defaults
    widgets: dict[str, gr.components.Component] = {}
    widgets["prompt"] = gr.Textbox(
        d.prompt, label="Prompt", lines=PROMPT_ROWS, max_lines=PROMPT_ROWS, elem_id="ds-prompt"
    )
    with gr.Row(elem_id="ds-kinds"):
        kinds = {kind: gr.Button(kind, size="sm") for kind in bundle.presets()}
    with gr.Row(elem_id="ds-go"):
        run = gr.Button("Run", variant="primary", elem_id="ds-run")
        stop = gr.Button("Stop", elem_id="ds-stop")
        step = gr.Button("Step", elem_id="ds-step")
        settings = gr.Button("Settings", elem_id="ds-settings")  # seen where the page is narrow: the run comes first
        settings.click(None, None, None, js="() => Draftscope.unfoldSettings()")
    widgets["drafter"] = gr.Dropdown(first_choices(d.drafter), value=d.drafter, label="Drafter", elem_id="ds-drafter")
    widgets |= _drafters_own(d)
    widgets["rule"] = gr.Dropdown(RULES, value=d.rule, label="Rule above temperature 0", elem_id="ds-rule")
    widgets["lenience"] = gr.Slider(
        0.05, 1, d.lenience, step=0.05, label="Lenience l", visible=False, elem_id="ds-lenience"
    )
    widgets["agreement"] = gr.Slider(
        1, 32, d.agreement, step=1, label="k likeliest of p", visible=False, elem_id="ds-agreement"
    )
    widgets["temperature"] = gr.Slider(0, 2, d.temperature, step=0.05, label="Temperature", elem_id="ds-temperature")
    widgets["seed"] = gr.Number(d.seed, precision=0, label="Seed", elem_id="ds-seed")
    longest = min(512, most_tokens)
    widgets["max_new_tokens"] = gr.Slider(
        8, longest, d.max_new_tokens, step=8, label="Length, tokens", elem_id="ds-length"
    )
    with gr.Accordion("More settings", open=False, elem_id="ds-more"):
        widgets |= _more(d)
    return {name: widgets[name] for name in NAMES}, {"run": run, "stop": stop, "step": step, "kinds": kinds}


def _drafters_own(d: Controls) -> dict[str, gr.components.Component]:
    """What only some drafters read, each seen with those."""
    widgets: dict[str, gr.components.Component] = {}
    widgets["gamma"] = gr.Slider(1, 16, d.gamma, step=1, label="γ, drafted a round (at most)", elem_id="ds-gamma")
    widgets["shape"] = gr.Textbox(
        d.shape, label="Tree: children of each node, by level", visible=False, elem_id="ds-shape"
    )
    widgets["tree_nodes"] = gr.Slider(
        1, 64, d.tree_nodes, step=1, label="Tree: nodes", visible=False, elem_id="ds-tree-nodes"
    )
    widgets["window"] = gr.Slider(1, 16, d.window, step=1, label="Window: columns", visible=False, elem_id="ds-window")
    widgets["inner"] = gr.Dropdown(
        INNER, value=d.inner, label="Drafts for the smallest model", visible=False, elem_id="ds-inner"
    )
    widgets["exit_layer"] = gr.Textbox(
        d.exit_layer, label="Target layers that draft", placeholder="a quarter of them", visible=False,
        elem_id="ds-exit-layer",
    )  # fmt: skip
    widgets["oracle_alpha"] = gr.Slider(
        0, 1, d.oracle_alpha, step=0.01, label="α: share left right (synthetic)", visible=False,
        elem_id="ds-oracle-alpha",
    )  # fmt: skip
    widgets["prefetch"] = gr.Slider(
        1, 64, d.prefetch, step=1, label="Outcomes drafted for ahead", visible=False, elem_id="ds-prefetch"
    )
    widgets["policy"] = gr.Dropdown(
        POLICIES, value=d.policy, label="Policy that chooses an arm", visible=False, elem_id="ds-policy"
    )
    widgets["arms"] = gr.Textbox(d.arms, label="Arms: NAME:γ or NAME:2x1x1", lines=3, visible=False, elem_id="ds-arms")
    widgets["typed"] = gr.Textbox(
        d.typed, label="You draft: how does the text go on?", lines=3, visible=False, elem_id="ds-typed"
    )
    return widgets


def _more(d: Controls) -> dict[str, gr.components.Component]:
    """Settings that are rarely moved, in a drawer of their own."""
    return {
        "draft_length": gr.Dropdown(
            LENGTHS, value=d.draft_length, label="How many of γ are drafted", elem_id="ds-draft-length"
        ),
        "confidence": gr.Slider(
            0, 1, d.confidence, step=0.01, label="Drafting stops below", visible=False, elem_id="ds-confidence"
        ),
        "tree_depth": gr.Slider(
            1, 10, d.tree_depth, step=1, label="Tree: depth", visible=False, elem_id="ds-tree-depth"
        ),
        "tree_width": gr.Slider(
            1, 10, d.tree_width, step=1, label="Tree: width, and children of a node", visible=False,
            elem_id="ds-tree-width",
        ),
        "ngram": gr.Slider(1, 8, d.ngram, step=1, label="Longest n-gram", visible=False, elem_id="ds-ngram"),
        "top_k": gr.Number(d.top_k, precision=0, minimum=0, label="Top-k (0: all tokens)", elem_id="ds-top-k"),
        "top_p": gr.Slider(0.05, 1, d.top_p, step=0.01, label="Top-p", elem_id="ds-top-p"),
        "min_p": gr.Slider(0, 0.99, d.min_p, step=0.01, label="Min-p (0: all tokens)", elem_id="ds-min-p"),
    }  # fmt: skip


def first_choices(drafter: str) -> list[tuple[str, str]]:
    """The list of drafters until the engine has said what it has: the one that is asked for."""
    return FIRST_CHOICES if drafter == "draft" else [(drafter, drafter)]
