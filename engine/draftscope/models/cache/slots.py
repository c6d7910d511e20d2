"""A KV cache with positions of its own for every sequence, behind transformers' cache interface.

The first `length[b]` slots of sequence b are permanent. A forward writes its rows after them; these rows are *open*
until `keep` makes one path of them permanent and drops the rest. Sequences of a batch may keep different numbers of
rows, so there is no common position for the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

VECTOR = 16  # columns; capacities and views are multiples of this
WIDE = 256  # the same on a device where a graph is recorded for each width


@lru_cache(maxsize=64)
def _sequences(batch: int, device: torch.device) -> Tensor:
    """[B, 1]: the number of each sequence. Kept, because graphs read it."""
    return torch.arange(batch, device=device)[:, None]


class SlotTable:
    """The slots of the next rows; shared by all layers of a cache."""

    def __init__(self, batch: int, capacity: int, device: torch.device, vector: int = VECTOR) -> None:
        self.capacity = capacity
        self._vector = vector
        self.length = torch.zeros(batch, dtype=torch.long, device=device)  # [B] permanent slots
        self.bound = 0  # on the host: an upper bound of all lengths
        self.least = 0  # on the host: a lower bound of all lengths
        self.even = True  # on the host: whether all sequences are known to have the same length
        self.open = 0  # rows written after the permanent ones and not kept yet
        self.slots = torch.zeros((batch, 0), dtype=torch.long, device=device)  # [B, T] slots of the current rows
        self.before = 0  # columns before the current rows, in the longest sequence
        self.view = 0  # columns that the current forward may attend to
        self._offsets: list[Tensor] = []  # [B, T] for each open forward: its rows' positions relative to `length`

    def begin_write(self, offsets: Tensor) -> None:
        """Prepares a forward that writes rows after the open ones, at positions `length` + `offsets` [B, T]."""
        rows = offsets.shape[1]
        if self.bound + self.open + rows > self.capacity:
            raise ValueError(f"the cache has {self.capacity} slots; {self.bound + self.open + rows} are needed")
        self.slots = self.length[:, None] + torch.arange(self.open, self.open + rows, device=self.length.device)
        self.before = self.bound + self.open
        self.view = self.before + rows
        self.open += rows
        self._offsets.append(offsets)

    def widen(self) -> None:
        """Rounds the view up to whole vectors, for a forward whose mask hides the columns after its rows.

        Attention kernels sum a partial vector at the end in another order. Without this the bits of a row would depend
        on how many rows are computed with it, and greedy runs in 16 bits would diverge at near ties.
        """
        self.view = min(-(-self.view // self._vector) * self._vector, self.capacity)

    def know_least(self, length: int) -> None:
        """Tells that no sequence has fewer than `length` permanent slots."""
        self.least = max(self.least, length)

    def common(self, view: int) -> int:
        """How many of the first columns of such a view are permanent in all sequences: whole vectors, short of the last
        two, so that the number is the same for all lengths that have this view."""
        return max(0, min(self.least, view - 2 * self._vector)) // self._vector * self._vector

    def positions(self) -> Tensor:
        """[B, view]: the position of the row in each slot. For a permanent row it is the slot itself, for an open row
        `length` plus its offset. Values of slots after the open rows are meaningless."""
        positions = torch.arange(self.view, device=self.length.device).repeat(len(self.length), 1)
        slots = self.length[:, None] + torch.arange(self.open, device=self.length.device)
        offsets = torch.cat([offset.expand(len(self.length), -1) for offset in self._offsets], 1)
        return positions.scatter_(1, slots, self.length[:, None] + offsets)

    def select_rows(self, sequences: Tensor) -> None:
        """Continues with only `sequences` [B']; no row may be open."""
        if self.open:
            raise ValueError(f"{self.open} rows are open; keep or drop them before removing sequences")
        self.commit(self.length[sequences], self.bound, self.even, self.least)

    def commit(self, length: Tensor, bound: int, even: bool = False, least: int = 0) -> None:
        """Makes the first `length[b]` slots permanent, `least` to `bound` of them; drops all other open rows."""
        self.length = length
        self.bound, self.least = bound, least
        self.even = even or len(length) == 1
        self.open = 0
        self._offsets = []


class Store:
    """One block of memory for the keys and values of all layers of the same shape, so that one copy keeps a path.

    `shapes` has an entry for each layer, or is the number of layers; layers with equal entries have the same shape.
    """

    def __init__(self, shapes: int | Sequence[object]) -> None:
        self.blocks: dict[object, Tensor] = {}  # [layers, 2, B, H, capacity, D], allocated at the first write
        self._shapes: list[object] = [None] * shapes if isinstance(shapes, int) else list(shapes)

    def place(self, layer: int, capacity: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, bool]:
        """A layer's keys and values, [B, H, capacity, D] each, and whether they are in the common block."""
        sizes = [(*tensor.shape[:2], capacity, tensor.shape[3]) for tensor in (keys, values)]
        shape = self._shapes[layer]
        if shape not in self.blocks and sizes[0] == sizes[1]:
            self.blocks[shape] = keys.new_zeros((self._shapes.count(shape), 2, *sizes[0]))
        if shape in self.blocks and all(_fits(self.blocks[shape], size, keys) for size in sizes):
            return *self.of(layer), True
        return keys.new_zeros(sizes[0]), values.new_zeros(sizes[1]), False

    def of(self, layer: int) -> tuple[Tensor, Tensor]:
        """A layer's keys and values in the common block."""
        shape = self._shapes[layer]
        keys, values = self.blocks[shape][self._shapes[:layer].count(shape)]
        return keys, values

    @torch.inference_mode()
    def clear(self) -> None:
        """Zeros, for another text: a masked column weighs nothing, but nothing times NaN is NaN."""
        for rows in self.blocks.values():
            rows.zero_()

    def select_rows(self, sequences: Tensor) -> None:
        """Continues with the memory of only `sequences`; layers must then get their views of it again."""
        for shape, rows in self.blocks.items():
            self.blocks[shape] = rows.index_select(2, sequences.to(rows.device))


def _fits(block: Tensor, size: tuple[int, ...], like: Tensor) -> bool:
    same = (block.dtype, block.device) == (like.dtype, like.device)
    return same and tuple(block.shape[2:]) == size


class SlotLayer(CacheLayerMixin):  # type: ignore[misc]
    """One layer's keys and values, [B, H, capacity, D] each, allocated at the first write."""

    def __init__(self, table: SlotTable, store: Store, index: int) -> None:
        super().__init__()
        self.table = table
        self._store, self._index = store, index
        self.apart = False  # whether its rows are outside the common block

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.keys, self.values, common = self._store.place(self._index, self.table.capacity, key_states, value_states)
        self.apart = not common
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Writes rows [B, H, T, D] to the table's slots and returns all columns that they may attend to."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        slots = self.table.slots.to(key_states.device)
        places = _sequences(len(slots), slots.device), slots
        for store, rows in ((self.keys, key_states.detach()), (self.values, value_states.detach())):
            if len(slots) == 1:
                store.index_copy_(2, slots[0], rows)
            else:
                store.transpose(1, 2).index_put_(places, rows.transpose(1, 2))
        return self.keys[:, :, : self.table.view], self.values[:, :, : self.table.view]

    def select_rows(self, sequences: Tensor) -> None:
        """Continues with only `sequences`; its store must have done so before."""
        if self.apart:
            index = sequences.to(self.keys.device)
            self.keys, self.values = self.keys.index_select(0, index), self.values.index_select(0, index)
        elif self.is_initialized:
            self.keys, self.values = self._store.of(self._index)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.table.view, 0

    def get_seq_length(self) -> int:
        return self.table.before

    def get_max_length(self) -> int:
        return self.table.capacity


class SlotCache(Cache):  # type: ignore[misc]
    """The cache of one model for B sequences. Memory: 2 x layers x B x KV heads x capacity x head width values.

    `shapes` of the layers are as in `Store`. `side` is the number of layers of an emulated size, which are written and
    kept like the model's own. `stores` is memory left by another cache of the same size; its old content is never
    attended to.
    """

    def __init__(
        self,
        shapes: int | Sequence[object],
        batch: int,
        capacity: int,
        device: torch.device,
        side: int = 0,
        vector: int = VECTOR,
        stores: tuple[Store, Store] | None = None,
    ) -> None:
        self.table = SlotTable(batch, -(-capacity // vector) * vector, device, vector)
        self._stores = stores or (Store(shapes), Store(side))
        self.side = [SlotLayer(self.table, self._stores[1], i) for i in range(side)]
        layers = shapes if isinstance(shapes, int) else len(shapes)
        super().__init__(layers=[SlotLayer(self.table, self._stores[0], i) for i in range(layers)])

    @property
    def scattered(self) -> bool:
        """Whether the rows of some layer are outside the common memory."""
        return any(layer.apart for layer in (*self.layers, *self.side))

    def rows(self, heads: int, width: int, dtype: torch.dtype) -> Tensor:
        """The memory [layers, 2, B, H, capacity, D] of all keys and values of `heads` H of `width` D."""
        for layer in self.layers:
            if not layer.is_initialized:
                length = self.table.length
                like = length.new_empty((len(length), heads, 1, width), dtype=dtype)
                layer.lazy_initialization(like, like)
        (rows,) = self._stores[0].blocks.values()
        assert not self.scattered
        return rows

    def keep_first(self, count: Tensor, bound: int) -> None:
        """Makes the first `count[b]` open rows of each sequence permanent in place; no length then exceeds `bound`."""
        self.table.commit(self.table.length + count, bound, least=self.table.least)

    @torch.inference_mode()
    def keep(self, rows: Tensor, count: Tensor, bound: int) -> None:
        """Makes the open rows `rows` [B, R] permanent in that order; only the first `count[b]` are not padding."""
        start = self.table.length[:, None]
        destination = start + torch.arange(rows.shape[1], device=rows.device)
        source = torch.where(rows >= 0, start + rows, destination)
        for rows_of_shape in (block for store in self._stores for block in store.blocks.values()):
            _copy(rows_of_shape, source, destination)
        for layer in (*self.layers, *self.side):
            assert isinstance(layer, SlotLayer)
            if layer.apart:
                _copy(layer.keys, source, destination)
                _copy(layer.values, source, destination)
        self.keep_first(count, bound)

    def truncate(self, length: Tensor, bound: int) -> None:
        """Drops all slots from `length[b]` on, and all open rows."""
        self.table.commit(length, bound)

    def select_rows(self, sequences: Tensor) -> None:
        """Continues with only `sequences` [B'], in that order; frees the others' memory. No row may be open."""
        self.table.select_rows(sequences)
        for store in self._stores:
            store.select_rows(sequences)
        for layer in (*self.layers, *self.side):
            assert isinstance(layer, SlotLayer)
            layer.select_rows(sequences)


def _copy(rows: Tensor, source: Tensor, destination: Tensor) -> None:
    """Copies slots `source` [B, R] of rows [..., B, H, capacity, D] to slots `destination` [B, R]; reads all first."""
    source, destination = source.to(rows.device), destination.to(rows.device)
    if len(source) == 1:
        rows.index_copy_(-2, destination[0], rows.index_select(-2, source[0]))
        return
    shape = (*rows.shape[:-2], source.shape[1], rows.shape[-1])
    copied = rows.gather(-2, source[:, None, :, None].expand(shape))
    rows.scatter_(-2, destination[:, None, :, None].expand(shape), copied)
