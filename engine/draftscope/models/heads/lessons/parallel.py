"""Losses of heads that draft several tokens at once: Medusa (2401.10774), block drafters (DFlash, 2602.06036; DSpark,
2607.05147)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from draftscope.models.heads.block import Block, DSpark
from draftscope.models.heads.lessons.lesson import DepthPair, Distillation, TargetOutput, identity
from draftscope.models.heads.medusa import Medusa

SPACING = 8  # one block is trained for every 8 tokens of text


class ParallelHeads(Distillation):
    """Medusa: row i drafts token i + 2 and those after it from the target's last hidden state alone."""

    student: Medusa

    def pairs(self, output: TargetOutput) -> Iterator[DepthPair]:
        rows = output.ids.shape[1] - len(self.weights)
        logits = self.student(output.states[:, :rows])  # [B, rows, K, V]
        for depth in range(1, len(self.weights) + 1):
            yield DepthPair((slice(None), slice(depth, depth + rows)), logits[:, :, depth - 1], identity)


class Blocks(Distillation):
    """Many blocks of one text in one forward; each attends to the text before its first token and to itself."""

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
    """Each token of a block is also told the text's own token before it."""

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
