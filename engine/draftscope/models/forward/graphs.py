"""CUDA graphs of a model's forward, of a whole draft loop and of verification: recorded once per shape, then replayed.

A forward of few rows is mostly kernel launches, each of which costs the host some microseconds; for a small model,
especially a draft, this is most of its time. A graph is bound to memory addresses: its inputs are copied into its own
tensors, and the cache's memory is reused by later sessions together with the graphs recorded on it. When a graph is
recorded, its replay is compared bit by bit with the eager forward. If they differ, or the model cannot be recorded,
everything stays eager and `off` gives the reason.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from draftscope.models.cache.slots import WIDE, SlotCache, Store

WIDEST = 128  # rows; a wider forward is not dominated by launches
FREE = 4  # blocks of cache memory kept for later sessions

Outputs = tuple[Any, ...]  # tensors, or None
Forward = Callable[[Tensor, Tensor, Tensor], Outputs]  # tokens, positions, mask
Call = Callable[..., Outputs]  # of tensors
Recorder = Callable[[Callable[[], Outputs]], tuple[Outputs, Callable[[], object]]]


@dataclass(frozen=True)
class Graph:
    """One recorded shape: `replay` reads `inputs` and fills `outputs`, the same tensors every time."""

    inputs: tuple[Tensor, ...]
    outputs: Outputs
    replay: Callable[[], object]


@dataclass
class Block:
    """A cache's memory and the graphs recorded on it."""

    size: tuple[int, int]  # sequences, slots
    stores: tuple[Store, Store]
    graphs: dict[object, Graph] = field(default_factory=dict)


class GraphMode(Enum):
    """What is replayed from graphs; the values are for display."""

    OFF = "off"
    FORWARDS = "on, single forwards only"  # draft loops and verification run eagerly
    ALL = "on"


class Graphs:
    """The graphs of one model.

    `record` is `on_cuda`, or a test's replacement. `off` is the reason why nothing is recorded, `only_forwards` the
    reason why only single forwards are; empty otherwise.
    """

    def __init__(self, record: Recorder, off: str = "") -> None:
        self.off = off
        self.only_forwards = ""
        self.record = record
        self._free: list[Block] = []
        self._lent: weakref.WeakKeyDictionary[SlotCache, Block] = weakref.WeakKeyDictionary()
        self._in_loop = False  # whether a loop or verification is being run or recorded as one graph

    @property
    def mode(self) -> GraphMode:
        """What is replayed at present."""
        return GraphMode.OFF if self.off else GraphMode.FORWARDS if self.only_forwards else GraphMode.ALL

    @property
    def state(self) -> str:
        """For display: the mode and, unless everything is replayed, the reason."""
        why = self.off or self.only_forwards
        return f"{self.mode.value}: {why}" if why else self.mode.value

    def cache(self, layers: int, batch: int, capacity: int, device: torch.device, side: int) -> SlotCache:
        """An empty cache that reuses the memory of an earlier one of this size if there is one."""
        size = (batch, -(-capacity // WIDE) * WIDE)
        block = next((block for block in self._free if block.size == size), None)
        if block is None:
            block = Block(size, (Store(layers), Store(side)))
        else:
            self._free.remove(block)
        cache = SlotCache(layers, *size, device, side, WIDE, block.stores)
        self._lent[cache] = block
        weakref.finalize(cache, self._take_back, block)
        return cache

    def _take_back(self, block: Block) -> None:
        self._free = [*self._free, block][-FREE:]

    def forward(self, cache: SlotCache, call: Forward, key: object, inputs: tuple[Tensor, Tensor, Tensor]) -> Outputs:
        """`call(*inputs)` for the rows that `cache` is ready to write; `key` identifies all else it depends on."""
        if self._in_loop or inputs[0].shape[1] > WIDEST:
            return call(*inputs)

        def with_slots(tokens: Tensor, positions: Tensor, mask: Tensor, slots: Tensor) -> Outputs:
            cache.table.slots = slots  # the slots of this forward's rows
            return call(tokens, positions, mask)

        return self._replayed(cache, with_slots, key, (*inputs, cache.table.slots))

    def loop(self, cache: SlotCache, call: Call, key: object, inputs: tuple[Tensor, ...], rows: int) -> Outputs:
        """`call(*inputs)`, which runs several forwards of `rows` rows in all on a cache without open rows.

        It may depend only on `inputs`, `key` and the lengths of the texts. `key` must hold references to other tensors
        that it reads, so that they still exist at a replay. After a replay the caller must commit the cache's table.
        """
        table = cache.table
        bound, even, least = table.bound, table.even, table.least
        wide = -(-(bound + rows) // WIDE)
        grows = wide != bound // WIDE + 1  # whether the view would grow within the loop
        if grows:
            return call(*inputs)

        def with_length(*inputs_and_length: Tensor) -> Outputs:
            table.commit(inputs_and_length[-1], bound, even, least)
            return call(*inputs_and_length[:-1])

        shape = key, wide, table.common(wide * WIDE)
        return self.in_loop(cache, with_length, shape, (*inputs, table.length))

    def in_loop(self, cache: SlotCache, call: Call, key: object, inputs: tuple[Tensor, ...]) -> Outputs:
        """`call(*inputs)`, which may depend only on `inputs` and `key`; its graph is kept with the cache's memory."""
        if self.only_forwards:
            return call(*inputs)
        self._in_loop = True
        try:
            return self._replayed(cache, call, key, inputs)
        finally:
            self._in_loop = False

    def _replayed(self, cache: SlotCache, call: Call, key: object, inputs: tuple[Tensor, ...]) -> Outputs:
        block = self._lent.get(cache)
        if self.off or block is None:
            return call(*inputs)
        key_and_shapes = (key, *(each.shape for each in inputs))
        if key_and_shapes not in block.graphs:
            return self._recorded(block, key_and_shapes, cache, call, inputs)
        graph = block.graphs[key_and_shapes]
        for buffer, value in zip(graph.inputs, inputs, strict=True):
            buffer.copy_(value)
        graph.replay()
        return tuple(each if each is None else each.clone() for each in graph.outputs)

    def _recorded(self, block: Block, key: object, cache: SlotCache, call: Call, inputs: tuple[Tensor, ...]) -> Outputs:
        """The eager outputs. A graph that gives the same bits is kept for later calls of this shape."""
        eager = call(*inputs)
        if cache.scattered:
            self._refuse("layers of different shapes have no common memory")
            return eager
        buffers = tuple(each.clone() for each in inputs)
        try:
            graph = Graph(buffers, *self.record(lambda: call(*buffers)))
            graph.replay()
        except (RuntimeError, NotImplementedError) as error:
            self._refuse(f"it cannot be recorded ({str(error).splitlines()[0]})")
            return eager
        if all(one is None or torch.equal(one, other) for one, other in zip(graph.outputs, eager, strict=True)):
            block.graphs[key] = graph
            return eager
        self._refuse("a replay gave other bits than the eager forward")
        return call(*inputs)  # again, because the replay overwrote the rows in the cache

    def _refuse(self, why: str) -> None:
        if self._in_loop:
            self.only_forwards = why
        else:
            self.off = why


def on_cuda(forward: Callable[[], Outputs]) -> tuple[Outputs, Callable[[], object]]:
    """Records `forward` on the current CUDA device, after a warm-up on a side stream, which CUDA graphs require."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        forward()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = forward()
    return outputs, graph.replay
