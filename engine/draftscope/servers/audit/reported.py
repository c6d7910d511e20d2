"""Do the log-probabilities that a server reports belong to the tokens that it wrote?

They are asked for at temperature 1 with nothing truncated, where a server that reports them before its settings and one
that reports them after mean the same number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax

from draftscope.servers.adapter import Request, ServerError
from draftscope.servers.audit.plan import Allowance
from draftscope.servers.audit.target import Target, refuse_unknown
from draftscope.servers.audit.text_writer import Writer

REPORTED_TOKENS = 16  # of each text


@dataclass(frozen=True)
class ReportedResult:
    """`untested`: why nothing was compared. `differs`: a sentence on the token that is furthest off; else empty."""

    tokens: int = 0
    worst: float = 0.0  # nats
    differs: str = ""
    untested: str = ""


def reported(
    writer: Writer, prompts: Sequence[Sequence[int]], target: Target, allowance: Allowance, seed: int
) -> ReportedResult:
    """Compares every reported log-probability with the target's. Twice the largest error of a logit is allowed for:
    the token's own, and that of the others in the sum."""
    tokens, worst, sentence = 0, 0.0, ""
    for number, prompt in enumerate(prompts, 1):
        request = Request(tuple(prompt), REPORTED_TOKENS, seed=seed + number, temperature=1.0, logprobs=True)
        try:
            chunks = list(writer.stream(request))
        except ServerError as error:
            return ReportedResult(untested=f"asked for log-probabilities the server failed: {error}")
        ids = [token for one in chunks for token in one.ids]
        said = [number for one in chunks for number in one.logprobs]
        if len(said) != len(ids) or not ids:
            return ReportedResult(untested="the server reports none, or not of every token")
        refuse_unknown(target, ids)
        right = log_softmax(target.logits(prompt, [ids])[0], -1)[np.arange(len(ids)), ids]
        gaps = np.nan_to_num(np.abs(np.array(said) - right), nan=math.inf)
        place = int(gaps.argmax())
        tokens += len(ids)
        if gaps[place] > worst:
            worst, figures = float(gaps[place]), f"reported with {said[place]:.2f}, the target's is {right[place]:.2f}"
            sentence = f"token {place + 1} of text {number} is {figures}"
    return ReportedResult(tokens, worst, sentence if worst > 2 * allowance.logit else "")
