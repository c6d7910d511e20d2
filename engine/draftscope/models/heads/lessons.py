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

from draftscope.models.heads.block import Block, DSpark
from draftscope.models.heads.head import Head, RecurrentHead
from draftscope.models.heads.medusa import Medusa

BALANCE = 0.01  # weight of the load-balancing loss of mixtures of experts (2101.03961)
SPACING = 8  # one block is trained for every 8 tokens of text
DRAWN = 1, 1, 2, 4  # steps for a text, drawn evenly: two on average; later tokens count only after the first ones
REGRESSION = 10.0  # weight of EAGLE-1's feature regression relative to its KL (2401.15077, section 3.2)

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


class ParallelHeads(Distillation):
    """Medusa (2401.10774): row i drafts token i + 2 and those after it from the target's last hidden state alone."""

    student: Medusa

    def pairs(self, output: TargetOutput) -> Iterator[DepthPair]:
        rows = output.ids.shape[1] - len(self.weights)
        logits = self.student(output.states[:, :rows])  # [B, rows, K, V]
        for depth in range(1, len(self.weights) + 1):
            yield DepthPair((slice(None), slice(depth, depth + rows)), logits[:, :, depth - 1], identity)


class Blocks(Distillation):
    """DFlash (2602.06036): many blocks of one text in one forward; each attends to the text
    before its first token and to itself."""

    student: Block

    def draw(self, ids: Tensor, generator: torch.Generator) -> Tensor:
        """Start positions of the blocks, [B, T / SPACING]: after at least one token, with room for the whole block."""
        last = ids.shape[1] - len(self.weights)
        return torch.randint(1, last + 1, (len(ids), ids.shape[1] // SPACING), generator=generator)

    def pairs(self, output: TargetOutput) -> Iterator[DepthPair]:
        assert output.drawn is not None
        rows = blocks(self.student, output.ids, output.states, output.drawn)  # [B, A, N, H]
        texts = torch.arange(len(output.ids), device=output.ids.device)[:, None]
        for depth in range(1, len(self.weights) + 1):
            yield DepthPair((texts, output.drawn + depth - 1), rows[:, :, depth], self.student.project)


class MarkovBlocks(Blocks):
    """DSpark (2607.05147): each token of a block is also told the text's own token before it."""

    student: DSpark

    def pairs(self, output: TargetOutput) -> Iterator[DepthPair]:
        for pair in super().pairs(output):
            before = self.student.read(output.ids[pair.where])  # row i of the target's output follows token i
            yield pair._replace(rows=torch.cat([pair.rows, before.to(pair.rows.dtype)], -1), project=self._project)

    def _project(self, rows: Tensor) -> Tensor:
        width = self.student.config.shape.hidden
        return self.student.project(rows[..., :width]) + self.student.bias(rows[..., width:])


def blocks(head: Block, ids: Tensor, states: Tensor, anchors: Tensor) -> Tensor:
    """Hidden states [B, A, N, H] of the blocks that start at `anchors` [B, A] in the texts `ids` [B, T].

    states [B, T, F] are the target's hidden states; a block attends to those before its first token.
    """
    texts, length = ids.shape
    size, count = head.config.size, anchors.shape[1]
    first_tokens = ids.gather(1, anchors).flatten()  # [B A]
    tokens = head.tokens(first_tokens, size - 1).view(texts, count * size)
    inside = (anchors[:, :, None] + torch.arange(size, device=ids.device)).flatten(1)  # [B, A N]
    before = torch.arange(length, device=ids.device)
    sees_text = before < anchors.repeat_interleave(size, 1)[:, :, None]  # [B, A N, T]
    block = torch.arange(count * size, device=ids.device) // size
    sees_block = (block[:, None] == block).expand(texts, -1, -1)
    mask = torch.cat([sees_text, sees_block], 2)[:, None]
    position_ids = torch.cat([before.expand(texts, -1), inside], 1)
    rows: Tensor = head(tokens, head.fuse(states), position_ids, mask)
    return rows.view(texts, count, size, -1)


class Unrolled(Distillation):
    """EAGLE-3's training-time test (2503.01840), also MTP: a head learns on its own features, as it drafts. One step
    for each weight."""

    student: RecurrentHead

    def draw_depths(self, generator: torch.Generator) -> int:
        return min(DRAWN[int(torch.randint(len(DRAWN), (), generator=generator))], len(self.weights))

    def pairs(self, output: TargetOutput) -> Iterator[DepthPair]:
        depth = output.depths or len(self.weights)
        rows = output.ids.shape[1] - depth
        for step, features in enumerate(unroll(self.student, output.ids, output.states, depth), 1):
            yield DepthPair((slice(None), slice(step, step + rows)), features, self.student.logits)


class Eagle1Lesson(Unrolled):
    """EAGLE-1 learns to predict the target's next feature, from the target's features only."""

    def loss(self, output: TargetOutput) -> Tensor:
        """Ten times the smooth L1 between the student's feature and the target's next one, plus the KL."""
        (features,) = unroll(self.student, output.ids, output.states, 1)
        regression = F.smooth_l1_loss(features.float(), output.states[:, 1:].float())
        return REGRESSION * regression + kl(output.distributions[:, 1:], self.student.logits(features))


def unroll(head: RecurrentHead, ids: Tensor, states: Tensor, depth: int) -> Iterator[Tensor]:
    """The features [B, T - depth, hidden] of each step; row i of step k predicts token i + k + 1. ids [B, T]; states
    [B, T, F] are the target's.

    At step 1 every row of a text reads the target's feature. At step k it reads the feature it produced itself at step
    k - 1, together with the next token of the text. Row i at step k is thus a drafter that started after token i + 1
    and has drafted k - 1 tokens, all correct: it attends to the target's features up to row i and to its own later
    steps, but not to later steps of other rows. All rows take each step at once.
    """
    rows = ids.shape[1] - depth
    features = head.fuse(states[:, :rows])
    positions = torch.arange(rows, device=ids.device).expand(len(ids), -1)
    cache: Any = Steps()
    for step in range(1, depth + 1):
        mask = step_mask(rows, step, ids.device)
        features = head.advance(ids[:, step : step + rows], features, positions + step - 1, mask, cache)
        yield features


def step_mask(rows: int, step: int, device: torch.device) -> Tensor:
    """[1, 1, rows, step x rows] bool: row i attends to rows 0..i of the first step and to row i of later steps."""
    causal = torch.ones((rows, rows), dtype=torch.bool, device=device).tril()
    diagonal = torch.eye(rows, dtype=torch.bool, device=device)
    return torch.cat([causal, *[diagonal] * (step - 1)], 1)[None, None]


class Steps:
    """Replaces the KV cache: keys and values of all steps so far, with gradients."""

    def __init__(self) -> None:
        self.layers = [self]
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []

    def update(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """New keys and values [B, heads, T, D] -> those of all steps, [B, heads, steps x T, D]."""
        self._keys.append(keys)
        self._values.append(values)
        return torch.cat(self._keys, 2), torch.cat(self._values, 2)
