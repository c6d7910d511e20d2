"""CUDA graphs of a model's forward, of a whole draft loop and of a round of the target: recorded once, then replayed.

A forward of few rows is mostly kernel launches, each of which costs the host some microseconds; for a small model,
especially a draft, this is most of its time. A graph is bound to memory addresses: its inputs are copied to fixed
tensors, and the cache's memory is reused by later sessions together with the graphs recorded on it. A shape is recorded
when it comes a second time. Its replay is then compared bit by bit with the eager forward. If they differ, or the model
cannot be recorded, everything stays eager and `off` gives the reason.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from draftscope.models.cache.slots import WIDE, SlotCache, Store

WIDEST = 128  # rows; a wider forward is not dominated by launches
FREE = 4  # blocks of cache memory kept for later sessions
MOST = 256  # graphs on one block: trees that the text chooses may have any shape
RECORDING = threading.Lock()  # CUDA records one graph of a process at a time, and no other thread may work meanwhile

Outputs = tuple[Any, ...]  # tensors, or None
Forward = Callable[[Tensor, Tensor, Tensor], Outputs]  # tokens, positions, mask
Call = Callable[..., Outputs]  # of tensors
Recorder = Callable[[Callable[[], Outputs]], tuple[Outputs, Callable[[], object]]]


@dataclass(frozen=True)
class Graph:
    """One recorded shape: `replay` reads `inputs` and fills `outputs`, tensors that other graphs use too."""

    inputs: tuple[Tensor, ...]
    outputs: Outputs
    replay: Callable[[], object]


@dataclass
class GraphMemory:
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

    `record` is an `OnCuda`, or a test's replacement. `off` is the reason why nothing is recorded, `only_forwards` the
    reason why only single forwards are; empty otherwise. `missed`: a thread that may only replay lacked a graph.
    """

    recorded = 0  # by all models of this process so far

    def __init__(self, record: Recorder, off: str = "") -> None:
        self.off = off
        self.only_forwards = ""
        self.record = record
        self._free: list[GraphMemory] = []
        self._lent: weakref.WeakKeyDictionary[SlotCache, GraphMemory] = weakref.WeakKeyDictionary()
        self._seen: set[object] = set()  # shapes that were needed before
        self._buffers: dict[object, Tensor] = {}  # inputs and outputs by place and shape, of all graphs
        self.missed = False
        self._thread = _GraphThread()

    @property
    def mode(self) -> GraphMode:
        """What is replayed at present."""
        return GraphMode.OFF if self.off else GraphMode.FORWARDS if self.only_forwards else GraphMode.ALL

    @property
    def state(self) -> str:
        """For display: the mode and, unless everything is replayed, the reason."""
        why = self.off or self.only_forwards
        return f"{self.mode.value}: {why}" if why else self.mode.value

    def cache(
        self, shapes: int | Sequence[object], batch: int, capacity: int, device: torch.device, side: int
    ) -> SlotCache:
        """An empty cache that reuses the memory of an earlier one, at least as large, if there is one."""
        block = self.smallest_free(batch, capacity)
        if block is None:
            block = GraphMemory((batch, -(-capacity // WIDE) * WIDE), (Store(shapes), Store(side)))
        else:
            self._free.remove(block)
            for store in block.stores:
                store.clear()
        cache = SlotCache(shapes, *block.size, device, side, WIDE, block.stores)
        self._lent[cache] = block
        weakref.finalize(cache, self._take_back, block)
        return cache

    def smallest_free(self, batch: int, capacity: int) -> GraphMemory | None:
        """The smallest free block that holds so many sequences and at least so many slots."""
        fit = [block for block in self._free if block.size[0] == batch and block.size[1] >= capacity]
        return min(fit, key=lambda block: block.size[1], default=None)

    def give_back(self) -> None:
        """Gives up the memory and the graphs that are kept for later sessions."""
        self._free, self._buffers = [], {}

    @contextmanager
    def only_replays(self) -> Iterator[None]:
        """For a thread beside the main one: what has no graph yet runs eagerly, and no graph is recorded meanwhile."""
        with RECORDING:
            self._thread.only_replays = True
            try:
                yield
            finally:
                self._thread.only_replays = False

    def _take_back(self, block: GraphMemory) -> None:
        self._free = [*self._free, block][-FREE:]

    def forward(self, cache: SlotCache, call: Forward, key: object, inputs: tuple[Tensor, Tensor, Tensor]) -> Outputs:
        """`call(*inputs)` for the rows that `cache` is ready to write; `key` identifies all else it depends on."""
        if self._thread.in_loop or inputs[0].shape[1] > WIDEST:
            return call(*inputs)

        def with_slots(tokens: Tensor, positions: Tensor, mask: Tensor, slots: Tensor) -> Outputs:
            cache.table.slots = slots  # the slots of this forward's rows
            return call(tokens, positions, mask)

        return self._replayed(cache, with_slots, key, (*inputs, cache.table.slots))

    def loop(self, cache: SlotCache, call: Call, key: object, inputs: tuple[Tensor, ...], widths: list[int]) -> Outputs:
        """`call(*inputs)`, which runs forwards of `widths` rows on a cache without open rows.

        On an empty cache it runs eagerly, because its first forward then has no mask.

        It may depend only on `inputs`, `key` and the lengths of the texts. `key` must hold references to other tensors
        that it reads, so that they still exist at a replay. After a replay the caller must commit the cache's table.
        """
        table = cache.table
        bound, even, least = table.bound, table.even, table.least
        first, wide = (-(-(bound + rows) // WIDE) for rows in (widths[0], sum(widths)))
        if first != wide or bound == 0:  # the view would grow within the loop
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
        self._thread.in_loop = True
        try:
            return self._replayed(cache, call, key, inputs)
        finally:
            self._thread.in_loop = False

    def _replayed(self, cache: SlotCache, call: Call, key: object, inputs: tuple[Tensor, ...]) -> Outputs:
        block = self._lent.get(cache)
        if self.off or block is None:
            return call(*inputs)
        key_and_shapes = (key, *(tensor.shape for tensor in inputs))
        graph = block.graphs.get(key_and_shapes)
        if graph is None:
            if self._waits(key_and_shapes) or len(block.graphs) >= MOST:
                return call(*inputs)
            with RECORDING:
                return self._recorded(block, key_and_shapes, cache, call, inputs)
        copy_all(graph.inputs, inputs)
        graph.replay()
        return _copies(graph.outputs)

    def _waits(self, key: object) -> bool:
        """Whether this shape is not recorded now: it comes for the first time, or in a thread that only replays."""
        self.missed |= self._thread.only_replays
        new = key not in self._seen
        self._seen.add(key)
        return new or self._thread.only_replays

    def _recorded(
        self, block: GraphMemory, key: object, cache: SlotCache, call: Call, inputs: tuple[Tensor, ...]
    ) -> Outputs:
        """The eager outputs. A graph that gives the same bits is kept for later calls of this shape."""
        eager = call(*inputs)
        if cache.scattered:
            self._refuse("layers of different shapes have no common memory")
            return eager
        buffers, outputs = self._buffers_like("in", inputs), self._buffers_like("out", eager)
        copy_all(buffers, inputs)

        def filled() -> Outputs:
            for into, value in zip(outputs, call(*buffers), strict=True):
                if into is not None:
                    into.copy_(value)
            return outputs

        try:
            graph = Graph(buffers, *self.record(filled))
            for output in outputs:  # so that a replay that does nothing is noticed
                if output is not None:
                    output.zero_()
            graph.replay()
        except (RuntimeError, NotImplementedError) as error:
            self._refuse(f"it cannot be recorded ({str(error).splitlines()[0]})")
            return eager
        Graphs.recorded += 1
        if all(one is None or torch.equal(one, other) for one, other in zip(outputs, eager, strict=True)):
            block.graphs[key] = graph
            return eager
        self._refuse("a replay gave other bits than the eager forward")
        return call(*inputs)  # again, because the replay overwrote the rows in the cache

    def _buffers_like(self, use: str, given: Outputs) -> Outputs:
        """Memory for such tensors, the same for all graphs: each replay first copies into it, or is copied from it."""
        keys = [None if tensor is None else (use, i, tensor.shape, tensor.dtype) for i, tensor in enumerate(given)]
        for key, tensor in zip(keys, given, strict=True):
            if key is not None and key not in self._buffers:
                self._buffers[key] = tensor.new_empty(tensor.shape)
        return tuple(None if key is None else self._buffers[key] for key in keys)

    def _refuse(self, why: str) -> None:
        if self._thread.in_loop:
            self.only_forwards = why
        else:
            self.off = why


class _GraphThread(threading.local):
    """What one thread is doing."""

    in_loop = False  # a loop or a verification is being run or recorded as one graph
    only_replays = False


def copy_all(into: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Copies each value into the tensor of its shape and dtype; two launches at most, if all are contiguous."""
    groups: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}
    for one, other in zip(into, values, strict=True):
        if one.numel():
            whole = all(part.nbytes % 4 == 0 == part.storage_offset() * part.itemsize % 4 for part in (one, other))
            unit = torch.int32 if whole else torch.uint8  # bits have no dtype
            for group, tensor in zip(groups.setdefault(unit, ([], [])), (one, other), strict=True):
                group.append(tensor.contiguous().as_strided((tensor.numel(),), (1,)).view(unit))
    for ones, others in groups.values():
        torch._foreach_copy_(ones, others)


def _copies(given: Outputs) -> Outputs:
    """The same values in new memory."""
    made = tuple(None if tensor is None else torch.empty_like(tensor) for tensor in given)
    copy_all([tensor for tensor in made if tensor is not None], [tensor for tensor in given if tensor is not None])
    return made


class OnCuda:
    """Records on one CUDA device, on a stream of its own, after a warm-up there, which CUDA graphs require.

    All its graphs share the memory of their intermediate results, so no two of them may run at the same time.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: Any = None
        self._pool: Any = None

    def __call__(self, forward: Callable[[], Outputs]) -> tuple[Outputs, Callable[[], object]]:
        with torch.cuda.device(self._device):
            before = torch.cuda.current_stream()
            if self._stream is None:
                self._stream, self._pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()  # type: ignore[no-untyped-call]
            self._stream.wait_stream(before)
            try:
                with torch.cuda.stream(self._stream):
                    forward()
                before.wait_stream(self._stream)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
                    outputs = forward()
            finally:
                torch.cuda.set_stream(before)  # a capture that fails leaves its stream the current one
        return outputs, graph.replay
