"""A model's forward as CUDA graphs: recorded once for each shape, then replayed by one launch.

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

import torch
from torch import Tensor

from draftscope.cache import WIDE, SlotCache, Store

WIDEST = 128  # rows; a wider forward is no longer mostly launches
FREE = 4  # blocks of cache memory kept for sessions to come

Outputs = tuple[Tensor, ...]
Forward = Callable[[Tensor, Tensor, Tensor], Outputs]  # tokens, positions, mask
Recorder = Callable[[Callable[[], Outputs]], tuple[Outputs, Callable[[], object]]]


@dataclass(frozen=True)
class Graph:
    """One recorded shape: `replay` reads `inputs` and fills `outputs`, the same tensors every time."""

    inputs: tuple[Tensor, ...]  # tokens, positions, mask, slots
    outputs: Outputs
    replay: Callable[[], object]


@dataclass
class Block:
    """A cache's memory and what was recorded over it."""

    size: tuple[int, int]  # sequences, slots
    stores: tuple[Store, Store]
    graphs: dict[object, Graph] = field(default_factory=dict)


class Graphs:
    """The graphs of one model. `record` is `on_cuda`, or a test's; `off` says why nothing is to be recorded."""

    def __init__(self, record: Recorder, off: str = "") -> None:
        self.off = off
        self.record = record
        self._free: list[Block] = []
        self._lent: weakref.WeakKeyDictionary[SlotCache, Block] = weakref.WeakKeyDictionary()

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
        block = self._lent.get(cache)
        if self.off or block is None or given[0].shape[1] > WIDEST:
            return call(*given)
        given_all = (*given, cache.table.slots)
        key = (form, *(each.shape for each in given_all))
        if key not in block.graphs:
            return self._recorded(block, key, cache, call, given_all)
        graph = block.graphs[key]
        for own, value in zip(graph.inputs, given_all, strict=True):
            own.copy_(value)
        graph.replay()
        return tuple(each.clone() for each in graph.outputs)

    def _recorded(
        self, block: Block, key: object, cache: SlotCache, call: Forward, given: tuple[Tensor, ...]
    ) -> Outputs:
        """The eager forward; a graph that gives the same bits is kept for the next of this shape."""
        eager = call(*given[:3])
        if cache.scattered:
            self.off = "layers of unlike shapes have no common memory"
            return eager
        inputs = tuple(each.clone() for each in given)
        cache.table.slots = inputs[3]  # where the rows of this forward go, until the next is aimed
        try:
            graph = Graph(inputs, *self.record(lambda: call(*inputs[:3])))
            graph.replay()
        except (RuntimeError, NotImplementedError) as error:
            self.off = f"the forward cannot be recorded ({str(error).splitlines()[0]})"
            return eager
        if all(torch.equal(own, value) for own, value in zip(graph.outputs, eager, strict=True)):
            block.graphs[key] = graph
            return eager
        self.off = "a replay gave other bits than the eager forward"
        return call(*given[:3])  # once more, for the rows that it writes


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
