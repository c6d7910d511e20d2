"""A model's forward, a whole draft loop, a judgement, as CUDA graphs: recorded once for each shape, replayed at once.

A forward of few rows is mostly launches: each costs the host some microseconds, which a small model, a draft above all,
does not give back. A graph is bound to addresses, so its inputs are copied into tensors of its own, and the cache's
memory is lent to one session after the other together with the graphs that were recorded over it. What a replay gives
is compared with the eager forward's bits when it is recorded; where they differ, or where a model cannot be recorded,
everything stays eager and `off` says why.
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

WIDEST = 128  # rows; a wider forward is no longer mostly launches
FREE = 4  # blocks of cache memory kept for sessions to come

Outputs = tuple[Any, ...]  # tensors, or None
Forward = Callable[[Tensor, Tensor, Tensor], Outputs]  # tokens, positions, mask
Call = Callable[..., Outputs]  # of tensors
Recorder = Callable[[Callable[[], Outputs]], tuple[Outputs, Callable[[], object]]]


@dataclass(frozen=True)
class Graph:
    """One recorded shape: `replay` reads `inputs` and fills `outputs`, the same tensors every time."""

    inputs: tuple[Tensor, ...]  # what is given, and where its rows go
    outputs: Outputs
    replay: Callable[[], object]


@dataclass
class Block:
    """A cache's memory and what was recorded over it."""

    size: tuple[int, int]  # sequences, slots
    stores: tuple[Store, Store]
    graphs: dict[object, Graph] = field(default_factory=dict)


class GraphMode(Enum):
    """What is replayed from graphs, as screens name it."""

    OFF = "off"
    FORWARDS = "on, single forwards alone"  # draft loops and verification run eagerly
    ALL = "on"


class Graphs:
    """The graphs of one model. `record` is `on_cuda`, or a test's; `off` says why nothing is to be recorded, `alone`
    why single forwards are, and nothing else."""

    def __init__(self, record: Recorder, off: str = "") -> None:
        self.off = off
        self.alone = ""
        self.record = record
        self._free: list[Block] = []
        self._lent: weakref.WeakKeyDictionary[SlotCache, Block] = weakref.WeakKeyDictionary()
        self._beyond = False  # is more than a single forward, or something else, about to be one graph?

    @property
    def mode(self) -> GraphMode:
        """What is replayed so far."""
        return GraphMode.OFF if self.off else GraphMode.FORWARDS if self.alone else GraphMode.ALL

    @property
    def state(self) -> str:
        """For display: the mode, and why it is not more."""
        why = self.off or self.alone
        return f"{self.mode.value}: {why}" if why else self.mode.value

    def cache(self, layers: int, batch: int, capacity: int, device: torch.device, side: int) -> SlotCache:
        """An empty cache over memory that an earlier one of this size has left, or over new memory."""
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

    def forward(self, cache: SlotCache, call: Forward, form: object, given: tuple[Tensor, Tensor, Tensor]) -> Outputs:
        """What `call(*given)` returns for the rows that `cache` was aimed at; `form` names what else it depends on."""
        if self._beyond or given[0].shape[1] > WIDEST:
            return call(*given)

        def aimed(tokens: Tensor, positions: Tensor, mask: Tensor, slots: Tensor) -> Outputs:
            cache.table.slots = slots  # where the rows of this forward go, until the next is aimed
            return call(tokens, positions, mask)

        return self._replayed(cache, aimed, form, (*given, cache.table.slots))

    def loop(self, cache: SlotCache, call: Call, form: object, given: tuple[Tensor, ...], rows: int) -> Outputs:
        """What `call(*given)` returns: forwards of `rows` rows in all, one behind the other; none is open before.

        They depend on nothing but `given`, `form` and how long the texts are; other tensors that they read must be
        held by `form`, or a replay may find them gone. A replay leaves the cache's table to the caller to settle.
        """
        table = cache.table
        bound, even, wide = table.bound, table.even, -(-(table.bound + rows) // WIDE)
        grows = wide != table.bound // WIDE + 1  # on the way it would see more columns than it began with
        if grows:
            return call(*given)

        def settled(*inputs: Tensor) -> Outputs:
            table.commit(inputs[-1], bound, even)
            return call(*inputs[:-1])

        return self.aside(cache, settled, (form, wide), (*given, table.length))

    def aside(self, cache: SlotCache, call: Call, form: object, given: tuple[Tensor, ...]) -> Outputs:
        """What `call(*given)` returns, a function of `given` and `form` alone; kept with the memory of `cache`."""
        if self.alone:
            return call(*given)
        self._beyond = True
        try:
            return self._replayed(cache, call, form, given)
        finally:
            self._beyond = False

    def _replayed(self, cache: SlotCache, call: Call, form: object, given: tuple[Tensor, ...]) -> Outputs:
        block = self._lent.get(cache)
        if self.off or block is None:
            return call(*given)
        key = (form, *(each.shape for each in given))
        if key not in block.graphs:
            return self._recorded(block, key, cache, call, given)
        graph = block.graphs[key]
        for own, value in zip(graph.inputs, given, strict=True):
            own.copy_(value)
        graph.replay()
        return tuple(each if each is None else each.clone() for each in graph.outputs)

    def _recorded(self, block: Block, key: object, cache: SlotCache, call: Call, given: tuple[Tensor, ...]) -> Outputs:
        """The eager outputs; a graph that gives the same bits is kept for the next of this shape."""
        eager = call(*given)
        if cache.scattered:
            self._refuse("layers of unlike shapes have no common memory")
            return eager
        inputs = tuple(each.clone() for each in given)
        try:
            graph = Graph(inputs, *self.record(lambda: call(*inputs)))
            graph.replay()
        except (RuntimeError, NotImplementedError) as error:
            self._refuse(f"it cannot be recorded ({str(error).splitlines()[0]})")
            return eager
        if all(own is None or torch.equal(own, value) for own, value in zip(graph.outputs, eager, strict=True)):
            block.graphs[key] = graph
            return eager
        self._refuse("a replay gave other bits than the eager forward")
        return call(*given)  # once more, for the rows that it writes

    def _refuse(self, why: str) -> None:
        if self._beyond:
            self.alone = why
        else:
            self.off = why


def on_cuda(forward: Callable[[], Outputs]) -> tuple[Outputs, Callable[[], object]]:
    """Records `forward` on the current CUDA device, warmed up on a stream of its own as recording asks."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        forward()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = forward()
    return outputs, graph.replay
