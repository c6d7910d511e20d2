"""What the page opens with, and the examples one press away: settings of the controls, by name.

A chat model opens on a letter written at temperature 0: everyday words, and two texts that are visibly the same. The
second picture samples the same letter: ratios and random numbers, and two texts that differ. A model that continues a
text opens on a sampled tree. Seeds and prompts are chosen so that the text of SmolLM2 and of the embedded model can be
read.
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
LETTER = "Write a short letter to thank a friend for a birthday gift."
CHAT_FIRST: Values = {"prompt": LETTER, "drafter": "eagle3", "gamma": 2, "temperature": 0.0, "max_new_tokens": 64}
CHAT_SAMPLED: Values = CHAT_FIRST | {"temperature": 0.6, "seed": 1}


def tree(chat: bool) -> Values:
    """The sampled tree and its prompt."""
    prompts = bundle.presets(chat)
    return {"prompt": prompts["structured"][0]} | CHAT_TREE if chat else {"prompt": prompts["story"][0]} | TREE


def settings(drafter: str | None = None, chat: bool = False) -> Values:
    """The controls that differ from the command line's defaults. A `drafter` that the server was started with brings
    no others."""
    opened = CHAT_FIRST if chat else tree(chat)
    opening = opened if drafter is None else {"prompt": opened["prompt"], "drafter": drafter}
    return RULE | opening


def picture(run: str) -> Values:
    """What was set for a recorded run that the page opens with."""
    return RULE | (CHAT_SAMPLED if run == "sampled" else CHAT_FIRST)


def examples(chat: bool = False) -> dict[str, Values]:
    """Name -> settings."""
    prompts = bundle.presets(chat)
    return {
        "Tree, sampled": tree(chat),
        "Chain, for speed": {"prompt": prompts["structured"][0]} | RULE | (CHAT_CHAIN if chat else CHAIN),
    }
