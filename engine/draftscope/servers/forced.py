"""The target's own probability of every token that a server wrote, from the weights here, by teacher forcing.

Never from a server's log-probabilities: llama.cpp reports 1.0 for every token of a speculative round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from draftscope.base.errors import DraftscopeError
from draftscope.models.model import Model
from draftscope.verify.sampling import Sampling


@dataclass(frozen=True)
class Forced:
    """What the target says of each token of an answer, in the answer's order."""

    p: tuple[float, ...]  # with the request's temperature, top-k, top-p and min-p; at temperature 0 of the softmax at 1
    expected: tuple[float, ...]  # nats: the mean of log p under the target itself
    best: tuple[bool, ...]  # it is the target's most probable token


@torch.inference_mode()
def forced(target: Model, prompt: Sequence[int], answer: Sequence[int], sampling: Sampling) -> Forced:
    """One forward over prompt and answer. Raises `DraftscopeError` for a token that the target does not have."""
    strange = [token for token in (*prompt, *answer) if not 0 <= token < target.vocabulary]
    if strange:
        raise DraftscopeError(f"token {strange[0]} is not in the target's vocabulary of {target.vocabulary}.")
    if not answer:
        return Forced((), (), ())
    cache = target.cache(1, len(prompt) + len(answer))
    target.read(cache, [list(prompt[:-1])])
    rows = torch.tensor([[prompt[-1], *answer[:-1]]], device=target.device)
    offsets = torch.arange(rows.shape[1], device=target.device)[None]
    logits = target.forward(cache, rows, offsets)[0]  # [A, V]
    probs = sampling.distribution(logits)
    written = torch.tensor(answer, device=logits.device)
    p = probs.gather(1, written[:, None])[:, 0]
    expected = torch.special.xlogy(probs, probs).sum(1)
    return Forced(tuple(p.tolist()), tuple(expected.tolist()), tuple((logits.argmax(1) == written).tolist()))
