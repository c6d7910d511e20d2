"""A key-value cache of our own behind transformers' cache interface, with per-sequence positions.

`length[b]` slots of sequence b are permanent. A forward writes its rows behind them, at the same offset for every
sequence; these rows stay *open* until `keep` makes one path of them permanent and forgets the rest. Sequences of a
batch may keep different numbers of rows, so nothing here has one position for the whole batch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

VECTOR = 16  # columns; a capacity is a whole number of them, and so is what a forward attends to
WIDE = 256  # the same on a device where a graph is recorded for each width


class SlotTable:
    """Where the next rows go: shared by all layers of one cache."""

    def __init__(self, batch: int, capacity: int, device: torch.device, vector: int = VECTOR) -> None:
        self.capacity = capacity
        self._vector = vector
        self.length = torch.zeros(batch, dtype=torch.long, device=device)  # [B] permanent slots
        self.bound = 0  # host: no sequence is longer than this
        self.even = True  # host: all sequences are known to be equally long
        self.open = 0  # rows written behind the permanent ones and not yet kept
        self.slots = torch.zeros((batch, 0), dtype=torch.long, device=device)  # [B, T] where the current rows go
        self.before = 0  # columns in front of the current rows, in the longest sequence
        self.view = 0  # columns that the current forward may attend to
        self._offsets: list[Tensor] = []  # [B, T] of each open forward: its rows' positions behind `length`

    def begin_write(self, offsets: Tensor) -> None:
        """The next forward writes rows behind the open ones; `offsets` [B, T] are their positions behind `length`."""
        rows = offsets.shape[1]
        if self.bound + self.open + rows > self.capacity:
            raise ValueError(f"the cache holds {self.capacity} slots; {self.bound + self.open + rows} are needed")
        self.slots = self.length[:, None] + torch.arange(self.open, self.open + rows, device=self.length.device)
        self.before = self.bound + self.open
        self.view = self.before + rows
        self.open += rows
        self._offsets.append(offsets)

    def widen(self) -> None:
        """Rounds the view up to whole vectors, for a forward whose mask hides what lies beyond its rows.

        Attention kernels sum the odd columns at the end in another order, so that without this the bits of a row would
        depend on how many rows went with it, and greedy lanes in 16-bit would part at near ties.
        """
        self.view = min(-(-self.view // self._vector) * self._vector, self.capacity)

    def positions(self) -> Tensor:
        """[B, view]: the position of what lies in each slot. A permanent slot is its own position; an open row's is
        its depth behind `length`; slots beyond them say nothing."""
        own = torch.arange(self.view, device=self.length.device).repeat(len(self.length), 1)
        slots = self.length[:, None] + torch.arange(self.open, device=self.length.device)
        offsets = torch.cat([each.expand(len(self.length), -1) for each in self._offsets], 1)
        return own.scatter_(1, slots, self.length[:, None] + offsets)

    def select_rows(self, sequences: Tensor) -> None:
        """Goes on with `sequences` [B'] alone; no row may be open."""
        if self.open:
            raise ValueError(f"{self.open} rows are open; keep or forget them before sequences leave")
        self.commit(self.length[sequences], self.bound, self.even)

    def commit(self, length: Tensor, bound: int, even: bool = False) -> None:
        """`length[b]` slots, no more than `bound`, are permanent from now on; open rows are forgotten."""
        self.length = length
        self.bound = bound
        self.even = even or len(length) == 1
        self.open = 0
        self._offsets = []


class Store:
    """One block of memory for the keys and values of all layers that are alike, so that one path is kept in one go."""

    def __init__(self, layers: int) -> None:
        self.rows: Tensor | None = None  # [layers, 2, B, H, capacity, D], allocated at the first write
        self._layers = layers

    def place(self, layer: int, capacity: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, bool]:
        """A layer's keys and values, [B, H, capacity, D] each, and whether they lie in the common block."""
        shapes = [(*each.shape[:2], capacity, each.shape[3]) for each in (keys, values)]
        if self.rows is None and shapes[0] == shapes[1]:
            self.rows = keys.new_zeros((self._layers, 2, *shapes[0]))
        if self.rows is not None and all(self._fits(shape, keys) for shape in shapes):
            return self.rows[layer, 0], self.rows[layer, 1], True
        return keys.new_zeros(shapes[0]), values.new_zeros(shapes[1]), False

    def select_rows(self, sequences: Tensor) -> None:
        """Goes on with the memory of `sequences` alone; what was placed in it before is to be placed anew."""
        if self.rows is not None:
            self.rows = self.rows.index_select(2, sequences.to(self.rows.device))

    def _fits(self, shape: tuple[int, ...], like: Tensor) -> bool:
        assert self.rows is not None
        same = (self.rows.dtype, self.rows.device) == (like.dtype, like.device)
        return same and tuple(self.rows.shape[2:]) == shape


class SlotLayer(CacheLayerMixin):  # type: ignore[misc]
    """One layer's keys and values, [B, H, capacity, D] each, allocated at the first write."""

    def __init__(self, table: SlotTable, store: Store, index: int) -> None:
        super().__init__()
        self.table = table
        self._store, self._index = store, index
        self.apart = False  # are its rows outside the common block?

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        placed = self._store.place(self._index, self.table.capacity, key_states, value_states)
        self.keys, self.values = placed[:2]
        self.apart = not placed[2]
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Writes [B, H, T, D] rows at the table's slots and returns everything the rows may attend to."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        slots = self.table.slots.to(key_states.device)
        for store, rows in ((self.keys, key_states.detach()), (self.values, value_states.detach())):
            if len(slots) == 1:
                store.index_copy_(2, slots[0], rows)
            else:
                store.scatter_(2, slots[:, None, :, None].expand_as(rows), rows)
        return self.keys[:, :, : self.table.view], self.values[:, :, : self.table.view]

    def select_rows(self, sequences: Tensor) -> None:
        """Goes on with `sequences` alone, behind its store."""
        if self.apart:
            own = sequences.to(self.keys.device)
            self.keys, self.values = self.keys.index_select(0, own), self.values.index_select(0, own)
        elif self.is_initialized:
            assert self._store.rows is not None
            self.keys, self.values = self._store.rows[self._index]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.table.view, 0

    def get_seq_length(self) -> int:
        return self.table.before

    def get_max_length(self) -> int:
        return self.table.capacity


class SlotCache(Cache):  # type: ignore[misc]
    """The cache of one model for B sequences. Memory: 2 x layers x B x KV heads x capacity x head width values.

    `side` layers are a ballast's: written and gathered as the model's own. `stores` is memory that another cache of
    this size has left; what lies in it is never attended to.
    """

    def __init__(
        self,
        layers: int,
        batch: int,
        capacity: int,
        device: torch.device,
        side: int = 0,
        vector: int = VECTOR,
        stores: tuple[Store, Store] | None = None,
    ) -> None:
        self.table = SlotTable(batch, -(-capacity // vector) * vector, device, vector)
        self._stores = stores or (Store(layers), Store(side))
        self.side = [SlotLayer(self.table, self._stores[1], i) for i in range(side)]
        super().__init__(layers=[SlotLayer(self.table, self._stores[0], i) for i in range(layers)])

    @property
    def scattered(self) -> bool:
        """Whether some layer's rows lie outside the common memory."""
        return any(layer.apart for layer in (*self.layers, *self.side))

    def keep_first(self, count: Tensor, bound: int) -> None:
        """Makes the first `count[b]` open rows of each sequence permanent in place. No length exceeds `bound`."""
        self.table.commit(self.table.length + count, bound)

    @torch.inference_mode()
    def keep(self, rows: Tensor, count: Tensor, bound: int) -> None:
        """Makes the open rows `rows` [B, R] permanent in that order; `count[b]` of them are real, the rest padding."""
        start = self.table.length[:, None]
        into = start + torch.arange(rows.shape[1], device=rows.device)
        source = torch.where(rows >= 0, start + rows, into)
        for store in self._stores:
            if store.rows is not None:
                _copy(store.rows, source, into)
        for layer in (*self.layers, *self.side):
            assert isinstance(layer, SlotLayer)
            if layer.apart:
                _copy(layer.keys, source, into)
                _copy(layer.values, source, into)
        self.keep_first(count, bound)

    def truncate(self, length: Tensor, bound: int) -> None:
        """Forgets everything from `length[b]` on, and every open row."""
        self.table.commit(length, bound)

    def select_rows(self, sequences: Tensor) -> None:
        """Goes on with `sequences` [B'] alone, in that order; the others' memory is freed. No row may be open."""
        self.table.select_rows(sequences)
        for store in self._stores:
            store.select_rows(sequences)
        for layer in (*self.layers, *self.side):
            assert isinstance(layer, SlotLayer)
            layer.select_rows(sequences)


def _copy(rows: Tensor, source: Tensor, into: Tensor) -> None:
    """Copies slots `source` [B, R] of rows [..., B, H, capacity, D] over slots `into` [B, R]; all are read first."""
    source, into = source.to(rows.device), into.to(rows.device)
    if len(source) == 1:
        rows.index_copy_(-2, into[0], rows.index_select(-2, source[0]))
        return
    shape = (*rows.shape[:-2], source.shape[1], rows.shape[-1])
    found = rows.gather(-2, source[:, None, :, None].expand(shape))
    rows.scatter_(-2, into[:, None, :, None].expand(shape), found)
