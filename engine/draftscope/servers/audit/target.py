"""The target whose distribution is the standard: its logits for texts that somebody else wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from scipy.special import softmax

from draftscope.base.errors import DraftscopeError
from draftscope.decode.engine import DecodingEngine
from draftscope.models.precise import fp32_rows, rounded_logits
from draftscope.servers.adapter import LOAD_IT_HERE
from draftscope.servers.audit.plan import MAX_TOLERANCE, MIN_TOLERANCE
from draftscope.servers.audit.warp import Floats
from draftscope.verify.sampling import Sampling

ROWS = 8  # texts in one forward
MARGIN = 4.0  # another kernel's rounding may be twice as large as ours, so its chi-square four times


class Target(Protocol):
    """Computes logits of texts by teacher forcing."""

    ends: tuple[int, ...]  # tokens that end a text
    vocabulary: int

    def logits(self, prompt: Sequence[int], texts: Sequence[Sequence[int]]) -> list[Floats]:
        """For each text, [T, V]: the logits from which each of its tokens was to be chosen."""


class LabTarget:
    """The target of a loaded pair, in fp32 whatever it decodes in."""

    def __init__(self, engine: DecodingEngine) -> None:
        self.engine = engine
        self.ends = tuple(sorted(engine.eos))
        self.vocabulary = engine.target.vocabulary

    def logits(self, prompt: Sequence[int], texts: Sequence[Sequence[int]]) -> list[Floats]:
        """Texts are padded behind their ends, which a causal model does not see before them."""
        by_text: list[Floats] = []
        for first in range(0, len(texts), ROWS):
            chosen = texts[first : first + ROWS]
            longest = max(map(len, chosen))
            rows = [[*prompt, *text, *([0] * (longest - len(text)))][:-1] for text in chosen]
            logits = fp32_rows(self.engine.target, rows)[:, len(prompt) - 1 :]
            by_text += [logits[b, : len(text)].double().cpu().numpy() for b, text in enumerate(chosen)]
        return by_text

    def rounding(self, prompt: Sequence[int], text: Sequence[int]) -> Floats:
        """[T, V] What the target's own precision changes in its logits."""
        logits: Floats = rounded_logits(self.engine.target, prompt, text).double().cpu().numpy()
        return logits - self.logits(prompt, [text])[0]

    def measured_tolerance(self, texts: Sequence[tuple[Sequence[int], Sequence[int]]], sampling: Sampling) -> float:
        """Nats a token that rounding alone may cost, measured on texts of (prompt, written); see `plan.Allowance`.

        Half the variance under p of the errors of the logits, the mean over all tokens, times `MARGIN`.
        """
        variances = []
        for prompt, text in texts:
            right = self.logits(prompt, [text])[0] / sampling.temperature
            error = self.rounding(prompt, text) / sampling.temperature
            p = softmax(right, -1)
            variances += list((p * error**2).sum(-1) - (p * error).sum(-1) ** 2)
        measured = MARGIN * float(np.mean(variances)) / 2
        return min(max(MIN_TOLERANCE, measured), MAX_TOLERANCE)


def refuse_unknown(target: Target, tokens: Sequence[int]) -> None:
    """Raises `DraftscopeError` where a server wrote a token that the target does not have."""
    if tokens and not 0 <= min(tokens) <= max(tokens) < target.vocabulary:
        wrong = max(tokens) if min(tokens) >= 0 else min(tokens)
        raise DraftscopeError(
            f"The server wrote token {wrong:,}, and this target has {target.vocabulary:,} tokens: it runs another "
            f"model or tokenizer; {LOAD_IT_HERE}."
        )
