"""What the page says of each drafter, where one is chosen: its group, what it does, and what it gained where it was
measured. What it needs, and why it cannot run here, the engine says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from draftscope_app.engine.jobs import DrafterChoice

HEAD, DRAFT, COPIES, OTHER = "A trained head", "A draft model", "Copies of the text", "Other ways"
GROUPS = (HEAD, DRAFT, COPIES, OTHER)

LINES = {
    "eagle3": (HEAD, "an EAGLE-3 head guesses a chain of tokens"),
    "hybrid": (HEAD, "the head's guesses and copies in one chain, each where it pays"),
    "eagle3-tree": (HEAD, "the head's likeliest guesses as a tree"),
    "eagle3-sampled-tree": (HEAD, "a tree drawn at random from the head's guesses"),
    "eagle3-sequoia": (HEAD, "a tree of the shape that pays best here"),
    "eagle": (HEAD, "an EAGLE-1 head guesses a chain"),
    "eagle-tree": (HEAD, "the same head's likeliest guesses as a tree"),
    "medusa": (HEAD, "several heads, each for a token further ahead"),
    "medusa-tree": (HEAD, "the same heads' guesses as a tree"),
    "mtp": (HEAD, "a head that was trained with the model"),
    "mtp-tree": (HEAD, "the same head's guesses as a tree"),
    "block": (HEAD, "a head guesses a whole block in one pass"),
    "block-tree": (HEAD, "the same block as a tree"),
    "dspark": (HEAD, "a block whose tokens depend on the one before"),
    "draft": (DRAFT, "a small model guesses a chain of tokens"),
    "sampled-tree": (DRAFT, "a tree drawn at random from its guesses"),
    "topk-tree": (DRAFT, "a tree of its likeliest guesses"),
    "sequoia": (DRAFT, "a tree of the shape that pays best here"),
    "ssd": (DRAFT, "it guesses on while the large model still checks"),
    "cascade": (DRAFT, "models that draft for each other"),
    "slem": (DRAFT, "a model with another tokenizer, through text"),
    "tli": (DRAFT, "the same, over the tokens that both have"),
    "ngram": (COPIES, "what followed the same words before"),
    "suffix": (COPIES, "what followed them most often"),
    "suffix-tree": (COPIES, "the same as a tree"),
    "lookahead": (COPIES, "word sequences that the large model guessed itself"),
    "early-exit": (OTHER, "the large model's own first layers guess"),
    "bandit": (OTHER, "tries several drafters and keeps to the best"),
    "typed": (OTHER, "you type the guess"),
    "oracle": (OTHER, "synthetic: knows the text, with chosen errors"),
    "plain": (OTHER, "no guesses: the baseline"),
}

OF = "SmolLM2-135M, its 4-bit file as stored, T = 0, AVX-512 VNNI, 2026-11-26"
GAINS = {"eagle3": 1.11, "hybrid": 0.95, "suffix": 0.94}  # gamma 1, assets/results/2026-11-26-two-cores-bf16


@dataclass(frozen=True)
class Line:
    """Of one drafter. `gain` is that of the shipped table; 0 where it has none."""

    name: str
    title: str
    group: str
    does: str
    lacks: str  # why it cannot run here; empty where it can
    gain: float


def lines(known: Iterable[DrafterChoice]) -> list[Line]:
    """Of all drafters, group by group; those that can run first. One of another package is among the others."""
    listed = []
    for drafter in known:
        group, does = LINES.get(drafter.name, (OTHER, ""))
        lacks = "" if drafter.available else drafter.why_not
        listed.append(Line(drafter.name, drafter.title, group, does, lacks, GAINS.get(drafter.name, 0.0)))
    return sorted(listed, key=lambda line: (GROUPS.index(line.group), bool(line.lacks)))
