"""What the page opens with, and the examples one press away: settings of the controls, by name.

It opens on a tree sampled above temperature 0: branches, ratios and random numbers are what there is to see. The greedy
chain is what there is to time. Seed and prompts are chosen so that the embedded model's text can be read.
"""

from __future__ import annotations

from typing import Any

from draftscope_app.page import bundle

Values = dict[str, Any]
RULE: Values = {"rule": "token"}  # accept with min(1, p/q), which most people know; block verification is a choice
TREE: Values = {"drafter": "sampled-tree", "shape": "3, 2, 1", "temperature": 0.6, "seed": 1, "max_new_tokens": 80}
CHAIN: Values = {"drafter": "draft", "gamma": 4, "temperature": 0.0, "seed": 0, "max_new_tokens": 128}


def settings(drafter: str | None = None) -> Values:
    """The controls that differ from the command line's defaults. A `drafter` that the server was started with brings
    no others."""
    prompts = bundle.presets()
    return {"prompt": prompts["story"][0]} | RULE | (TREE if drafter is None else {"drafter": drafter})


def examples() -> dict[str, Values]:
    """Name -> settings."""
    prompts = bundle.presets()
    return {
        "Tree, sampled": {"prompt": prompts["story"][0]} | TREE,
        "Chain, for speed": {"prompt": prompts["structured"][0]} | RULE | CHAIN,
    }
