"""What the cards say of each member in words: what it is for, how it learnt, what it is bad at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class About:
    purpose: str
    method: str
    limits: str


ON_TEXT = """Next-token training on packed rows of 512 tokens, of 1,024 in every eighth step. The kinds of
text are drawn by the square root of their size."""
ON_TARGET = """on the target's training text and, every eighth step, on text the target wrote at temperature 0.8."""
BLURRED = """Everything its target is bad at, and more. Its agreement with the target is measured on text of the kinds
it was trained on; expect less elsewhere. It is no use without its target."""

TARGET = About(
    """The target of Draftscope's embedded pair: small enough that a laptop's processor decodes it while
you watch, large enough that verifying several tokens there costs about what one does.""",
    ON_TEXT,
    """It has the form of each kind of text, not its sense. Stories lose their thread within sentences
and people change names; arithmetic looks right and is wrong; code resembles a standard
library and does not run; verse is verse by its line breaks. At temperature 0 it tends to loop. It knows no
facts, follows no instructions and had no safety training. English only. The rule-generated part of the
structured text is so regular that n-gram drafters look better on it than they are elsewhere.""",
)
EXPERTS = About(
    """A mixture of experts to decode with speculation: verifying several tokens touches more experts than one token
does, so that they cost more here than in a dense target.""",
    f"{ON_TEXT} A load-balancing loss keeps the experts equally busy.",
    f"{TARGET.limits} Whether a dense model with as many active parameters would write as well was not measured.",
)


def _draft(purpose: str, limits: str, start: str = "") -> About:
    method = f"{start}Forward KL from the target's full next-token law at temperature 1, {ON_TARGET}"
    return About(purpose, method, f"{limits} {BLURRED}")


ABOUT = {
    "target": TARGET,
    "draft": _draft(
        """The draft of Draftscope's embedded pair: one layer that proposes tokens for Llama-Draftscope-15M to
verify.""",
        "With one layer it follows phrases, not sentences.",
    ),
    "draft-2l": _draft(
        """A draft of two layers for Llama-Draftscope-15M, to weigh against the one with one: its step takes longer,
and it must agree with the target that much more often.""",
        "It follows phrases, not sentences.",
        "It began as Llama-Draftscope-Draft-1M, its second layer adding nothing. ",
    ),
    "draft-tiny": _draft(
        """A very small draft for Llama-Draftscope-15M: for the bottom of a cascade, or where a draft step
is what costs.""",
        "It knows little more than which token follows which.",
    ),
    "draft-hopeless": _draft(
        """A draft for Llama-Draftscope-15M that is bad on purpose: to see what speculation costs when it fails.""",
        "Everything. That is its purpose.",
    ),
    "mamba2": _draft(
        """A Mamba-2 draft for Llama-Draftscope-15M: it keeps a state of constant size instead of keys and values of
the whole text.""",
        "Its state must be put back when a drafted token is rejected. What its state has forgotten it cannot look up.",
    ),
    "experts-draft": _draft(
        "The draft of Llama-Draftscope-Experts: one dense layer.",
        "With one layer it follows phrases, not sentences.",
        "It began as Llama-Draftscope-Draft-1M. ",
    ),
    "eagle3": About(
        """An EAGLE-3 head (2503.01840) for Llama-Draftscope-15M: one layer that reads low, middle and high hidden
states of the target, each normed before they are fused (EAGLE 3.1), and then its own.""",
        f"""Training-time test: four steps on its own features, forward KL from the target's law over the head's
vocabulary at each, a later step counting 0.8 of the one before it; {ON_TARGET}""",
        f"It can only draft the tokens that were most frequent in its training text. {BLURRED}",
    ),
    "eagle": About(
        """An EAGLE-1 head (2401.15077) for Llama-Draftscope-15M, to weigh against EAGLE-3: it continues the target's
last hidden state and reads it off with the target's own output weights.""",
        f"""Smooth L1 between its feature and the target's next one, ten times over, and the forward KL of the law read
off it, on the target's features only; {ON_TARGET}""",
        f"It never saw its own features in training, so that its later tokens are worse. {BLURRED}",
    ),
    "medusa": About(
        """Four Medusa heads (2401.10774) for Llama-Draftscope-15M: each a residual block before the target's own output
weights, which all share.""",
        f"""Forward KL from the target's law two to five tokens on, a further head counting 0.8 of the one before it;
{ON_TARGET}""",
        f"A head knows nothing of what the heads before it guessed, so the later ones are vague. {BLURRED}",
    ),
    "block": About(
        """A block drafter in the manner of DFlash (2602.06036) for Llama-Draftscope-15M: eight tokens in one forward of
one layer, whose keys and values are made of the target's hidden states.""",
        f"""Forward KL from the target's law at each place of blocks that begin anywhere in a text, a later place
counting e^-1/4 of the one before it; {ON_TARGET}""",
        f"The tokens of a block do not know each other, so that later ones are vague. {BLURRED}",
    ),
    "mtp": About(
        """A multi-token prediction head as in DeepSeek-V3 (2412.19437) for Llama-Draftscope-15M, though trained after
the target and not with it; applied again and again to draft a chain.""",
        f"""Three steps on its own features, forward KL from the target's law at each, a later step counting 0.8 of the
one before it; {ON_TARGET}""",
        f"Drafts longer than three tokens are longer than any in its training. {BLURRED}",
    ),
}
ABOUT["experts"] = EXPERTS
