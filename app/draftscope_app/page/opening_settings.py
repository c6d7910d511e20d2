"""What the page opens with, and the examples one press away: settings of the controls, by name.

It opens on a tree sampled above temperature 0: branches, ratios and random numbers are what there is to see. The greedy
chain is what there is to time. There are two sets: for a target that answers in a chat, and for one that continues a
text. Seed and prompts are chosen so that the text of SmolLM2 and of the embedded model can be read.
"""

from __future__ import annotations

from typing import Any

from draftscope_app.page import bundle

Values = dict[str, Any]
RULE: Values = {"rule": "token"}  # accept with min(1, p/q), which most people know; block verification is a choice
TREE: Values = {"drafter": "sampled-tree", "shape": "3, 2, 1", "temperature": 0.6, "seed": 1, "max_new_tokens": 80}
CHAIN: Values = {"drafter": "draft", "gamma": 4, "temperature": 0.0, "seed": 0, "max_new_tokens": 128}
CHAT_TREE: Values = TREE | {"drafter": "eagle3-sampled-tree", "shape": "1, 2", "seed": 19}
CHAT_CHAIN: Values = CHAIN | {"drafter": "hybrid"}


def tree(chat: bool) -> Values:
    """The sampled tree and its prompt; with the chat model those of the shipped run, chosen by measurement."""
    prompts = bundle.presets(chat)
    return {"prompt": prompts["structured"][0]} | CHAT_TREE if chat else {"prompt": prompts["story"][0]} | TREE


def settings(drafter: str | None = None, chat: bool = False) -> Values:
    """The controls that differ from the command line's defaults. A `drafter` that the server was started with brings
    no others."""
    opened = tree(chat)
    opening = opened if drafter is None else {"prompt": opened["prompt"], "drafter": drafter}
    return RULE | opening


def examples(chat: bool = False) -> dict[str, Values]:
    """Name -> settings."""
    prompts = bundle.presets(chat)
    return {
        "Tree, sampled": tree(chat),
        "Chain, for speed": {"prompt": prompts["structured"][0]} | RULE | (CHAT_CHAIN if chat else CHAIN),
    }
