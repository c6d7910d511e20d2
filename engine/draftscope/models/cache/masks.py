"""Who may attend to whom: ancestry in the draft tree, intersected with how far back each kind of layer looks.

A sliding window counts *positions*. In a tree a row's position is its depth, not its slot: siblings share one. So the
window is worked out from the positions of rows and columns, never from where they lie in the cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from draftscope.base.errors import DraftscopeError
from draftscope.models.cache.slots import SlotTable


@dataclass(frozen=True)
class Reach:
    """How far back a layer looks: to everything, over the last `size` positions, or to the start of its chunk."""

    kind: Literal["full", "sliding", "chunked"] = "full"
    size: int = 0

    def sees(self, query: Tensor, key: Tensor) -> Tensor:
        """Positions [B, T, 1] and [B, 1, S] -> bool [B, T, S], as transformers' own masks have it."""
        if self.kind == "sliding":
            return key > query - self.size
        return key // self.size == query // self.size

    def hides_nothing(self, columns: int) -> bool:
        """True where all of `columns` positions are in reach of each other."""
        return self.kind == "full" or columns <= self.size


STATES = ("linear_attention", "conv")  # kinds of layers that keep a state, where `hybrid` takes them back

Reaches = Reach | dict[str, Reach]  # one for all layers, or one for each layer type that the model asks for by name


def reaches(config: Any, name: str) -> Reaches:
    """What the layers of a text config look at; mirrors transformers' `create_masks_for_generate`.

    Layers with a state beside others look at nothing. Raises `DraftscopeError` where all layers keep one, and for those
    that are not attention over the whole cache, a window or a chunk.
    """
    kinds = sorted(set(getattr(config, "layer_types", None) or []))
    kinds = [kind for kind in kinds if kind not in STATES] or kinds
    if kinds:
        found = {kind: _reach(config, kind, name) for kind in kinds}
        return found if len(found) > 1 else found[kinds[0]]
    if getattr(config, "sliding_window", None):
        return _reach(config, "sliding_attention", name)
    if getattr(config, "attention_chunk_size", None):
        return _reach(config, "chunked_attention", name)
    return Reach()


def _reach(config: Any, kind: str, name: str) -> Reach:
    if kind == "full_attention":
        return Reach()
    if kind == "sliding_attention" and getattr(config, "sliding_window", None):
        return Reach("sliding", config.sliding_window)
    if kind == "chunked_attention" and getattr(config, "attention_chunk_size", None):
        return Reach("chunked", config.attention_chunk_size)
    raise DraftscopeError(
        f"'{name}' has layers of the kind '{kind}', whose state this engine cannot roll back after a rejection; "
        "choose a model whose layers all attend to a cache of keys and values."
    )


def attention_mask(
    table: SlotTable, reach: Reaches, sees: Tensor | None, additive: torch.dtype | None
) -> Tensor | dict[str, Tensor]:
    """The mask [B, 1, T, view] of the table's current rows, or one for each layer type.

    sees [B, T, open] bool: which open rows each row descends from, itself included; None is a chain. `additive` asks
    for 0 and the least value of that dtype instead of booleans.
    """
    seen = _ancestry(table, sees)
    if isinstance(reach, Reach):
        return _finished(_within(table, reach, seen), additive)
    made = {each: _finished(_within(table, each, seen), additive) for each in set(reach.values())}
    return {kind: made[each] for kind, each in reach.items()}


def _ancestry(table: SlotTable, sees: Tensor | None) -> Tensor:
    """[B, T, view] bool: the sequence's permanent slots, then the open rows that `sees` allows."""
    (batch, rows), device = table.slots.shape, table.length.device
    columns = torch.arange(table.view, device=device)
    if sees is None:
        return columns <= table.slots[:, :, None]
    seen = (columns < table.length[:, None, None]).repeat(1, rows, 1)
    open_slots = table.length[:, None, None] + torch.arange(table.open, device=device)
    return seen.scatter_(2, open_slots.expand(batch, rows, -1), sees.expand(batch, -1, -1))


def _within(table: SlotTable, reach: Reach, seen: Tensor) -> Tensor:
    """`seen` [B, T, view] without what lies out of reach."""
    if reach.hides_nothing(table.view):
        return seen
    positions = table.positions()
    queries = positions.gather(1, table.slots)
    return seen & reach.sees(queries[:, :, None], positions[:, None, :])


def _finished(mask: Tensor, additive: torch.dtype | None) -> Tensor:
    """[B, T, view] bool -> [B, 1, T, view], in the form that the attention takes."""
    mask = mask[:, None]
    if additive is None:
        return mask
    return torch.zeros(mask.shape, dtype=additive, device=mask.device).masked_fill_(~mask, torch.finfo(additive).min)
