"""Attention masks: ancestry in the draft tree, intersected with the reach of each kind of layer.

A sliding window counts *positions*. In a tree the position of a row follows from its depth, not from its slot: siblings
share a position. The window is therefore computed from the positions of rows and columns, not from their slots.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from draftscope.base.errors import DraftscopeError
from draftscope.models.cache.layers import STATES, of_kind
from draftscope.models.cache.slots import SlotTable


@dataclass(frozen=True)
class Reach:
    """How far back a layer attends: everything, the last `size` positions, or its chunk of `size` positions."""

    kind: Literal["full", "sliding", "chunked"] = "full"
    size: int = 0

    def sees(self, query: Tensor, key: Tensor) -> Tensor:
        """Positions [B, T, 1] and [B, 1, S] -> bool [B, T, S], as in transformers' own masks."""
        if self.kind == "sliding":
            return key > query - self.size
        return key // self.size == query // self.size

    def hides_nothing(self, columns: int) -> bool:
        """Whether all of `columns` positions are within reach of each other."""
        return self.kind == "full" or columns <= self.size


@dataclass(frozen=True)
class Common:
    """What is known of a mask besides its values: all rows of all sequences see its first `columns`.

    `biases` keeps the rest of the mask as the kernels take it, made by the first layer of a forward.
    """

    columns: int
    biases: dict[object, Tensor] = field(default_factory=dict)


# The attribute of a mask that holds its `Common`. transformers passes a 4D mask through to every layer untouched but no
# further argument in all architectures; a model that does change the mask loses the attribute, and nothing is assumed.
COMMON = "_draftscope_common"


def with_common(mask: Tensor, columns: int) -> Tensor:
    """The same mask [B, 1, T, view], known to hide none of the first `columns` from any row."""
    same = mask.view(mask.shape)
    setattr(same, COMMON, Common(columns))
    return same


def common_of(mask: Any) -> Common | None:
    """What is known of a mask; None of one that was not made here."""
    return getattr(mask, COMMON, None)


Reaches = Reach | dict[str, Reach]  # one for all layers, or one for each layer type by name


def reaches(config: Any, name: str) -> Reaches:
    """The reach of the layers of a text config, as in transformers' `create_masks_for_generate`.

    Layers that keep a state need no mask if there are others. Raises `DraftscopeError` if all layers keep a state, and
    for layers other than attention over the whole cache, a window or a chunk.
    """
    kinds = sorted(set(getattr(config, "layer_types", None) or []))
    kinds = [kind for kind in kinds if kind not in STATES] or kinds
    if kinds:
        by_kind = {kind: _reach(config, kind, name) for kind in kinds}
        return by_kind if len(by_kind) > 1 else by_kind[kinds[0]]
    if window := of_kind(config, "", "sliding_window", name):
        return Reach("sliding", window)
    if chunk := of_kind(config, "", "attention_chunk_size", name):
        return Reach("chunked", chunk)
    return Reach()


def _reach(config: Any, kind: str, name: str) -> Reach:
    if kind == "full_attention":
        return Reach()
    if kind == "sliding_attention" and (window := of_kind(config, kind, "sliding_window", name)):
        return Reach("sliding", window)
    if kind == "chunked_attention" and (chunk := of_kind(config, kind, "attention_chunk_size", name)):
        return Reach("chunked", chunk)
    raise DraftscopeError(
        f"'{name}' has layers of type '{kind}', whose state this engine cannot roll back after a rejection; choose a "
        "model whose layers all attend to a KV cache."
    )


def attention_mask(
    table: SlotTable, reach: Reaches, sees: Tensor | None, additive: torch.dtype | None
) -> Tensor | dict[str, Tensor]:
    """The mask [B, 1, T, view] of the table's current rows, or one for each layer type.

    sees [B, T, open] bool: the ancestors of each row among the open rows, including itself; None for a chain. If
    `additive` is a dtype, the mask has 0 and its lowest value instead of booleans; else its `Common` is known.
    """
    seen = _ancestry(table, sees)
    if isinstance(reach, Reach):
        return _finished(table, reach, seen, additive)
    masks = {span: _finished(table, span, seen, additive) for span in set(reach.values())}
    return {kind: masks[span] for kind, span in reach.items()}


def _ancestry(table: SlotTable, sees: Tensor | None) -> Tensor:
    """[B, T, view] bool: the permanent slots of the sequence and the open rows that `sees` allows."""
    (batch, rows), device = table.slots.shape, table.length.device
    columns = torch.arange(table.view, device=device)
    if sees is None:
        return columns <= table.slots[:, :, None]
    seen = (columns < table.length[:, None, None]).repeat(1, rows, 1)
    open_slots = table.length[:, None, None] + torch.arange(table.open, device=device)
    return seen.scatter_(2, open_slots.expand(batch, rows, -1), sees.expand(batch, -1, -1))


def _within(table: SlotTable, reach: Reach, seen: Tensor) -> Tensor:
    """`seen` [B, T, view] without the columns that are out of reach."""
    if reach.hides_nothing(table.view):
        return seen
    positions = table.positions()
    queries = positions.gather(1, table.slots)
    return seen & reach.sees(queries[:, :, None], positions[:, None, :])


def _finished(table: SlotTable, reach: Reach, seen: Tensor, additive: torch.dtype | None) -> Tensor:
    """`seen` [B, T, view] within `reach` as [B, 1, T, view], boolean or additive."""
    mask = _within(table, reach, seen)[:, None]
    if additive is None:
        return with_common(mask, table.common(table.view) if reach.hides_nothing(table.view) else 0)
    return torch.zeros(mask.shape, dtype=additive, device=mask.device).masked_fill_(~mask, torch.finfo(additive).min)
