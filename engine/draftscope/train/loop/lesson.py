"""What a drafter learns from its target, text by text: the target's whole distribution at every depth it drafts.

A lesson turns a text into pairs: what the target says of a token, and what the drafter guesses of the same token from
where it stands, one depth after the other. The loss is the forward KL between them, and acceptance the mass that both
share; so what is trained, what is measured and what is drafted with is one computation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from draftscope.models.heads import Head

Pair = tuple[Tensor, Tensor]


class Seen(NamedTuple):
    """A text, and what its target makes of it.

    ids [B, T]; states [B, T, F], the target's hidden states that the drafter reads; distributions [B, T, V'], row i
    about token i + 1; drawn, what is random in this reading.
    """

    ids: Tensor
    states: Tensor
    distributions: Tensor
    drawn: Tensor | None


class Lesson(ABC):
    """`target` p is frozen, `student` q learns. `weights[k]` is what depth k + 1 counts in the loss."""

    def __init__(self, target: Any, student: Any, weights: tuple[float, ...]) -> None:
        self.target = target.requires_grad_(False).eval()
        self.student = student
        self.weights = weights
        self._layers: tuple[int, ...] = student.layers if isinstance(student, Head) else ()

    @abstractmethod
    def pairs(self, seen: Seen) -> Iterator[Pair]:
        """For depth 1, 2, ...: rows of `seen.distributions` [..., V'], and the student's logits [..., D] of the same
        tokens."""

    def draw(self, ids: Tensor, dice: torch.Generator) -> Tensor | None:  # noqa: ARG002 - most lessons draw nothing
        """What is random in one reading of `ids` [B, T]."""
        return None

    def loss(self, ids: Tensor, drawn: Tensor | None) -> Tensor:
        """Mean KL(p || q) in nats over texts [B, T], depths weighted, over the tokens that the student can say."""
        seen = self.shown(ids, drawn)
        return self.loss_of(seen._replace(distributions=F.log_softmax(self._sayable(seen.distributions).float(), -1)))

    def loss_of(self, seen: Seen) -> Tensor:
        """`loss`, where the distributions are log-probabilities over the student's vocabulary."""
        depths = [kl(true, said) for true, said in self.pairs(seen)]
        weighted = [weight * depth for weight, depth in zip(self.weights, depths, strict=True)]
        return torch.stack(weighted).sum() / sum(self.weights)

    @torch.no_grad()
    def shown(self, ids: Tensor, drawn: Tensor | None) -> Seen:
        """What the target makes of texts [B, T]; its distributions as logits [B, T, V]."""
        out = self.target(input_ids=ids, use_cache=False, output_hidden_states=bool(self._layers))
        states = [out.hidden_states[layer] for layer in self._layers] or [out.logits[..., :0]]
        return Seen(ids, torch.cat(states, -1), out.logits, drawn)

    def to_target(self, distributions: Tensor) -> Tensor:
        """The student's distributions [..., D] -> [..., V], over the target's vocabulary."""
        return self.student.to_target(distributions) if isinstance(self.student, Head) else distributions

    def _sayable(self, logits: Tensor) -> Tensor:
        """[..., V] -> [..., D]: only the tokens in the student's own vocabulary."""
        pruned = isinstance(self.student, Head) and self.student.d2t is not None
        return logits[..., self.student.targets] if pruned else logits


def kl(log_p: Tensor, logits: Tensor) -> Tensor:
    """Mean KL(p || q) in nats: log-probabilities p and logits of q, both [..., D]."""
    log_q = F.log_softmax(logits.float(), -1)
    return (log_p.exp() * (log_p - log_q)).sum(-1).mean()


class Drafting(Lesson):
    """A draft model of its own: it reads the text itself, so that every depth is like the first."""

    def __init__(self, target: Any, student: Any) -> None:
        super().__init__(target, student, (1.0,))

    def pairs(self, seen: Seen) -> Iterator[Pair]:
        yield seen.distributions, self.student(input_ids=seen.ids, use_cache=False).logits
