"""How often the child of each rank is the one accepted: what a tree that is settled in advance is built from.

Measured with real rounds on the shipped prompts, at the settings asked for, by trees one level deep: every round
verifies the children of an accepted parent (Sequoia, 2402.12374, section 3.2). Nobody's clock runs meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from draftscope.base.prompts import shipped
from draftscope.drafters.settings import Settings
from draftscope.verify.tree import even

if TYPE_CHECKING:
    from draftscope.decode.lab import Lab

WIDTH = 6  # ranks
PROMPT, TOKENS = 64, 48  # of each text


def by_rank(lab: Lab, settings: Settings) -> tuple[float, ...]:
    """The share of rounds in which the drafter's child of each rank was accepted; in the rest none was."""
    width = min(WIDTH, lab.target.vocabulary)
    wide = settings.model_copy(update={"tree_nodes": width, "max_new_tokens": TOKENS})
    prompts = [lab.tokenizer(prompt.text)["input_ids"][:PROMPT] for prompt in shipped()]
    session = lab.session_of(prompts, wide, tuple(range(len(prompts))), ends=False, counts=even((width,)))
    hits, rounds = [0] * width, 0
    for step in session.steps():
        for live, path, never_accepted in zip(step.live, step.paths, step.tree.never_accepted.tolist(), strict=True):
            if live and never_accepted and not never_accepted[0]:
                rounds += 1
                for node in path:
                    hits[node] += 1
    return tuple(hit / rounds for hit in hits)
