"""The prose of the model cards: what each member is for, how it was trained, what its limits are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class About:
    purpose: str
    method: str
    limits: str


ON_TEXT = """Next-token training on packed rows of 512 tokens, of 1,024 in every eighth step. The kinds of
text are drawn by the square root of their size."""
ON_TARGET = """on the target's training text and, every eighth step, on text the target generated at temperature 0.8."""
DRAFT_LIMITS = """It has all the limits of its target, and more. Its agreement with the target was measured on the
kinds of text it was trained on; expect less on other text. It is of no use without its target."""

TARGET = About(
    """The target of Draftscope's embedded pair: small enough for a laptop's CPU to decode while you watch, large
enough that verifying several tokens on it costs about as much as one.""",
    ON_TEXT,
    """It imitates the form of each kind of text, but not its meaning. Stories lose their thread within sentences
and characters change names; arithmetic looks right and is wrong; code resembles a standard
library and does not run; verse is recognisable only by its line breaks. At temperature 0 it tends to loop. It knows no
facts, follows no instructions and had no safety training. English only. The rule-generated part of the
structured text is so regular that n-gram drafters look better on it than on other text.""",
)
EXPERTS = About(
    """A mixture of experts as a target: verifying several tokens activates more experts than one token does, so a
verify forward costs more than on a dense target.""",
    f"{ON_TEXT} A load-balancing loss keeps the experts equally busy.",
    f"{TARGET.limits} It was not compared with a dense model of as many active parameters.",
)


def _draft(purpose: str, limits: str, start: str = "") -> About:
    method = f"{start}Forward KL from the target's full next-token distribution at temperature 1, {ON_TARGET}"
    return About(purpose, method, f"{limits} {DRAFT_LIMITS}")


ABOUT = {
    "target": TARGET,
    "draft": _draft(
        """The draft of Draftscope's embedded pair: one layer that proposes tokens for Llama-Draftscope-15M to
verify.""",
        "With one layer it models phrases, not sentences.",
    ),
    "draft-2l": _draft(
        """A draft of two layers for Llama-Draftscope-15M, to compare with the one-layer draft: its step takes longer,
so it must agree with the target more often to be worth it.""",
        "It models phrases, not sentences.",
        "It started from Llama-Draftscope-Draft-1M, with a second layer that initially adds nothing. ",
    ),
    "draft-tiny": _draft(
        """A very small draft for Llama-Draftscope-15M: for the bottom of a cascade, or where draft steps
are the bottleneck.""",
        "It models little more than which token follows which.",
    ),
    "draft-hopeless": _draft(
        """A draft for Llama-Draftscope-15M that is bad on purpose, to show what speculation costs when it fails.""",
        "It is bad at everything; that is its purpose.",
    ),
    "mamba2": _draft(
        """A Mamba-2 draft for Llama-Draftscope-15M: it keeps a state of constant size instead of keys and values of
the whole text.""",
        "Its state must be restored when a drafted token is rejected. What the state has forgotten is lost.",
    ),
    "experts-draft": _draft(
        "The draft of Llama-Draftscope-Experts: one dense layer.",
        "With one layer it models phrases, not sentences.",
        "It started from Llama-Draftscope-Draft-1M. ",
    ),
    "eagle3": About(
        """An EAGLE-3 head (2503.01840) for Llama-Draftscope-15M: one layer that reads low, middle and high hidden
states of the target, each normalised before they are fused (EAGLE 3.1), and then its own features.""",
        f"""Training-time test: four steps on its own features, at each the forward KL from the target's distribution
over the head's vocabulary, each step weighted 0.8 of the previous one; {ON_TARGET}""",
        f"It can only draft the tokens that were most frequent in its training text. {DRAFT_LIMITS}",
    ),
    "eagle": About(
        """An EAGLE-1 head (2401.15077) for Llama-Draftscope-15M, to compare with EAGLE-3: it predicts the target's
next last hidden state and applies the target's own output weights to it.""",
        f"""Ten times the smooth L1 between its feature and the target's next one, plus the forward KL of the predicted
distribution, on the target's features only; {ON_TARGET}""",
        f"It was never trained on its own features, so its later tokens are worse. {DRAFT_LIMITS}",
    ),
    "medusa": About(
        """Four Medusa heads (2401.10774) for Llama-Draftscope-15M: each is a residual block before the target's own
output weights, which all share.""",
        f"""Forward KL from the target's distribution two to five tokens ahead, each head weighted 0.8 of the previous
one; {ON_TARGET}""",
        f"A head does not see what the earlier heads drafted, so the later ones are less certain. {DRAFT_LIMITS}",
    ),
    "block": About(
        """A block drafter in the style of DFlash (2602.06036) for Llama-Draftscope-15M: eight tokens in one forward of
one layer, whose keys and values are computed from the target's hidden states.""",
        f"""Forward KL from the target's distribution at each position of blocks that start anywhere in a text, each
position weighted e^-1/4 of the previous one; {ON_TARGET}""",
        f"The tokens of a block are drafted independently, so later ones are less certain. {DRAFT_LIMITS}",
    ),
    "mtp": About(
        """A multi-token prediction head as in DeepSeek-V3 (2412.19437) for Llama-Draftscope-15M, but trained after the
target instead of with it; applied repeatedly to draft a chain.""",
        f"""Three steps on its own features, at each the forward KL from the target's distribution, each step weighted
0.8 of the previous one; {ON_TARGET}""",
        f"It was trained on three steps only, so longer drafts are outside its training. {DRAFT_LIMITS}",
    ),
}
ABOUT["experts"] = EXPERTS
