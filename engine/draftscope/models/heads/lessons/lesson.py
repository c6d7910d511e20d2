"""Lessons: how a target learns from a text, and a drafter from its target's distribution at every draft depth.

A drafter's lesson turns a text into pairs for depth 1, 2, ...: the target's distribution of a token, and the drafter's
of the same token. The loss is the forward KL between the two, and acceptance is their overlap. Training, evaluation and
drafting therefore share one computation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from draftscope.models.heads.head import Head

BALANCE = 0.01  # weight of the load-balancing loss of mixtures of experts (2101.03961)

Where = tuple[Any, Any]  # an index of rows in [B, T, ...]


class TargetOutput(NamedTuple):
    """Texts and the target's output on them.

    ids [B, T]; states [B, T, F]: the target's hidden states that the drafter reads; distributions [B, T, V']: row i is
    about token i + 1; drawn: the random part of the lesson, see `Lesson.draw`; counted [B, T] bool: the rows of
    `distributions` to learn from, None for all; depths: how many of the student's to learn, None for all.
    """

    ids: Tensor
    states: Tensor
    distributions: Tensor
    drawn: Tensor | None
    counted: Tensor | None = None
    depths: int | None = None


class DepthPair(NamedTuple):
    """One depth of a lesson. `where` are rows of the target's output; `rows` [..., H] the student's for the same
    tokens, which `project` turns into logits [..., D]."""

    where: Where
    rows: Tensor
    project: Callable[[Tensor], Tensor]

    def rows_of(self, output: TargetOutput) -> tuple[Tensor, Tensor]:
        """The target's rows and the student's logits, only of the rows that count."""
        rows = output.distributions[self.where]
        if output.counted is None:
            return rows, self.project(self.rows)
        counted = output.counted[self.where]
        return rows[counted], self.project(self.rows[counted])


def identity(logits: Tensor) -> Tensor:
    """`DepthPair.project` of a student whose forward ends in logits."""
    return logits


class Lesson(ABC):
    """How `student` learns from texts, and from what its target makes of them."""

    def __init__(self, student: Any) -> None:
        self.student = student

    @property
    def device(self) -> torch.device:
        device: torch.device = next(self.student.parameters()).device
        return device

    def draw(self, ids: Tensor, generator: torch.Generator) -> Tensor | None:  # noqa: ARG002 - most have no random part
        """The random part of a lesson on `ids` [B, T], if it has one."""
        return None

    @abstractmethod
    def prepare(self, rows: Tensor, drawn: Tensor | None) -> TargetOutput:
        """What `loss` needs of texts `rows` [B, T + 1], of which each row's last token only follows."""

    @abstractmethod
    def loss(self, output: TargetOutput) -> Tensor:
        """In nats, on what `prepare` returned."""


class NextTokens(Lesson):
    """A target: it learns which token follows. `ids` of its output are whole rows [B, T + 1]."""

    def prepare(self, rows: Tensor, drawn: Tensor | None) -> TargetOutput:
        nothing = rows[..., :0]
        return TargetOutput(rows, nothing, nothing, drawn)

    def loss(self, output: TargetOutput) -> Tensor:
        """Mean cross-entropy, plus a load-balancing loss if there are experts."""
        routed = {"output_router_logits": True} if hasattr(self.student.config, "num_experts") else {}
        out = self.student(input_ids=output.ids[:, :-1], use_cache=False, **routed)  # logits [B, T, V]
        loss = F.cross_entropy(out.logits.float().flatten(0, 1), output.ids[:, 1:].flatten())
        return loss + BALANCE * out.aux_loss if routed else loss


class Distillation(Lesson):
    """Trains `student` q on the frozen `target` p. `weights[k]` is the weight of depth k + 1 in the loss.

    The loss is the forward KL at temperature 1 over the student's vocabulary: at every position the drafter learns from
    all probabilities, not only from the token that follows.
    """

    def __init__(self, target: Any, student: Any, weights: tuple[float, ...]) -> None:
        super().__init__(student)
        self.target = target.requires_grad_(False).eval()
        self.weights = weights
        self._layers: tuple[int, ...] = student.layers if isinstance(student, Head) else ()

    def draw_depths(self, generator: torch.Generator) -> int | None:  # noqa: ARG002 - most learn all at once
        """How many depths a text is learned for; None for all."""
        return None

    @abstractmethod
    def pairs(self, output: TargetOutput) -> Iterator[DepthPair]:
        """For depth 1, 2, ...: the rows of `output.distributions` and the student's for the same tokens."""

    @torch.no_grad()
    def prepare(self, rows: Tensor, drawn: Tensor | None) -> TargetOutput:
        output = self.run_target(rows[:, :-1], drawn)
        log_p = F.log_softmax(self._in_student_vocabulary(output.distributions).float(), -1)
        return output._replace(distributions=log_p)

    def loss(self, output: TargetOutput) -> Tensor:
        """Weighted mean over depths of KL(p || q); distributions are log-probabilities over the student's tokens."""
        depths = [kl(*pair.rows_of(output)) for pair in self.pairs(output)]
        weights = self.weights[: len(depths)]
        weighted = [weight * depth for weight, depth in zip(weights, depths, strict=True)]
        return torch.stack(weighted).sum() / sum(weights)

    @torch.no_grad()
    def run_target(self, ids: Tensor, drawn: Tensor | None) -> TargetOutput:
        """The target's output on texts [B, T], with its distributions as logits [B, T, V]."""
        out = self.target(input_ids=ids, use_cache=False, output_hidden_states=bool(self._layers))
        states = [out.hidden_states[layer] for layer in self._layers] or [out.logits[..., :0]]
        return TargetOutput(ids, torch.cat(states, -1), out.logits, drawn)

    def to_target(self, distributions: Tensor) -> Tensor:
        """The student's distributions [..., D] -> [..., V] over the target's vocabulary."""
        return self.student.to_target(distributions) if isinstance(self.student, Head) else distributions

    def _in_student_vocabulary(self, logits: Tensor) -> Tensor:
        """[..., V] -> [..., D]: only the tokens in the student's vocabulary."""
        pruned = isinstance(self.student, Head) and self.student.d2t is not None
        return logits[..., self.student.targets] if pruned else logits


def kl(log_p: Tensor, logits: Tensor) -> Tensor:
    """Mean KL(p || q) in nats: log-probabilities p and logits of q, both [..., D]."""
    log_q = F.log_softmax(logits.float(), -1)
    return (log_p.exp() * (log_p - log_q)).sum(-1).mean()


class DraftModelLesson(Distillation):
    """A draft model: it reads the text itself, so one depth stands for all."""

    def __init__(self, target: Any, student: Any) -> None:
        super().__init__(target, student, (1.0,))

    def pairs(self, output: TargetOutput) -> Iterator[DepthPair]:
        rows = self.student.base_model(input_ids=output.ids, use_cache=False).last_hidden_state
        yield DepthPair((slice(None), slice(None)), rows, self.student.get_output_embeddings())
