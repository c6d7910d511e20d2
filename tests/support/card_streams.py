"""Streams, events and graphs of a card that is not there (`card.py`), with who waited for whom as vector clocks."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

Clock = dict[int, int]  # by stream, the number of its operations that are certainly done
NUMBERS = itertools.count()  # of streams, over all cards of a process
CAPTURED = "operation not permitted when stream is capturing"


class Memory:
    """The memory of a tensor and its views: who wrote it last and who has read it since."""

    def __init__(self, held: Tensor) -> None:
        self.held, self.address = held, held.untyped_storage().data_ptr()
        self.graph: Graph | None = None  # whose capture it belongs to
        self._write: tuple[int, int] | None = None
        self._reads: Clock = {}

    def forget(self) -> None:
        """Its content is undefined from now on."""
        fill_with_nothing(self.held)

    def written_by(self, stream: Stream) -> None:
        self._write, self._reads = (stream.number, stream.clock.get(stream.number, 0)), {}

    def read_by(self, stream: Stream) -> None:
        self._reads[stream.number] = stream.clock[stream.number]

    def unordered(self, clock: Clock, writes: bool, first: int) -> bool:
        """Whether work on another stream that `clock` has not waited for wrote it, or reads what is now written.

        Streams before `first` are of an earlier card: functions that keep what they made outlive it.
        """
        if self._write is not None and first <= self._write[0] and clock.get(self._write[0], 0) < self._write[1]:
            return True
        return writes and any(first <= number and clock.get(number, 0) < tick for number, tick in self._reads.items())


class Stream:
    """`torch.cuda.Stream`."""

    def __init__(self, streams: Streams, device: torch.device) -> None:
        self.device, self.number, self.clock = device, next(NUMBERS), Clock()
        self._streams = streams
        self.late: list[tuple[int, Tensor, Tensor]] = []  # copies to the host that have not arrived
        streams.every.append(self)

    def used(self, read: Iterable[Memory], written: Iterable[Memory], what: str) -> None:
        """One operation on this stream; says where it is not ordered."""
        self.begin()
        for memories, writes in ((read, False), (written, True)):
            for memory in memories:
                if memory.unordered(self.clock, writes, self._streams.first):
                    self._streams.wrong.append(
                        f"{what} at {self._streams.where()} does not wait for another stream that uses its memory"
                    )
                if writes:
                    memory.written_by(self)
                else:
                    memory.read_by(self)

    def begin(self) -> None:
        """The next operation, which comes after everything that this host thread has waited for."""
        _merge(self.clock, self._streams.host)
        self.clock[self.number] = self.clock.get(self.number, 0) + 1

    def arrives_later(self, into: Tensor, value: Tensor) -> None:
        fill_with_nothing(into)
        self.late.append((self.clock[self.number], into, value))

    def wait_here(self) -> None:
        """The host waits for this stream."""
        self.begin()
        self._streams.host_knows(self.clock)

    def wait_stream(self, other: Stream) -> None:
        self._streams.refuse_in_capture("a wait for a stream")
        _merge(self.clock, other.clock)

    def synchronize(self) -> None:
        self._streams.refuse_in_capture("a synchronisation")
        self._streams.count("synchronise")
        self.wait_here()

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event(self._streams)
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        _merge(self.clock, event.clock)

    def query(self) -> bool:
        return self._streams.host.get(self.number, 0) >= self.clock.get(self.number, 0)


class Event:
    """`torch.cuda.Event`."""

    def __init__(self, streams: Streams, enable_timing: bool = False, **_: Any) -> None:
        self.clock: Clock = {}
        self._streams, self._timed, self._at = streams, enable_timing, 0.0

    def record(self, stream: Stream | None = None) -> None:
        self._streams.refuse_in_capture("an event")
        stream = stream or self._streams.now(None)
        stream.begin()
        self.clock, self._at = dict(stream.clock), perf_counter()

    def wait(self, stream: Stream | None = None) -> None:
        (stream or self._streams.now(None)).wait_event(self)

    def synchronize(self) -> None:
        """Waits for one event: counted as an event, which lets the device go on."""
        self._streams.refuse_in_capture("a synchronisation")
        self._streams.count("event")
        self._streams.host_knows(self.clock)

    def query(self) -> bool:
        return all(self._streams.host.get(number, 0) >= tick for number, tick in self.clock.items())

    def elapsed_time(self, end: Event) -> float:
        if not (self._timed and end._timed):
            raise RuntimeError("both events need enable_timing")
        if not (self.query() and end.query()):
            raise RuntimeError("device not ready")
        return (end._at - self._at) * 1e3


@dataclass
class Capture:
    """What is being recorded."""

    graph: Graph
    stream: Stream
    thread: int = field(default_factory=threading.get_ident)
    broken: bool = False
    _saved: dict[int, tuple[Memory, Tensor]] = field(default_factory=dict)

    def adopt(self, memory: Memory) -> None:
        memory.graph = self.graph
        self.graph.memories.append(memory)

    def uses(self, read: Iterable[Memory], written: Iterable[Memory]) -> None:
        """Keeps what memory from outside the graph uses, and the content that its recording must not change."""
        for memories, into in ((read, self.graph.reads), (written, self.graph.writes)):
            for memory in memories:
                if memory.graph is not self.graph:
                    into[id(memory)] = weakref.ref(memory)
        for memory in written:
            if memory.graph is not self.graph and id(memory) not in self._saved:
                self._saved[id(memory)] = memory, _bytes(memory.held).clone()

    def record(self, func: Any, args: Any, kwargs: Any, result: Any, fresh: set[int]) -> None:
        filled = [
            each if isinstance(each, Tensor) and each.untyped_storage().data_ptr() in fresh else None
            for each in results_of(result)
        ]

        def again() -> None:
            for memory, value in zip(filled, results_of(func(*args, **kwargs)), strict=True):
                if memory is not None:
                    memory.copy_(value)

        self.graph.tape.append(again)

    def end(self) -> None:
        """Recording has no effect."""
        for memory, content in self._saved.values():
            _bytes(memory.held).copy_(content)
        for memory in self.graph.memories:
            memory.forget()


class Graph:
    """`torch.cuda.CUDAGraph`."""

    def __init__(self, streams: Streams) -> None:
        self.tape: list[Callable[[], None]] = []
        self.memories: list[Memory] = []  # of the capture
        self.reads: dict[int, weakref.ref[Memory]] = {}  # memory from outside
        self.writes: dict[int, weakref.ref[Memory]] = {}
        self.share = Memory(torch.zeros(1))  # stands for the memory of its pool, which other graphs use too
        self.device = torch.device("cuda", 0)
        self._streams = streams

    def replay(self) -> None:
        self._streams.refuse_in_capture("a replay")
        self._streams.count("replay")
        stream = self._streams.now(self.device)
        read, written = ([ref() for ref in refs.values()] for refs in (self.reads, self.writes))
        if any(memory is None for memory in (*read, *written)):
            self._streams.wrong.append("a replay uses memory that was given back")
        alive = [[memory for memory in memories if memory is not None] for memories in (read, written)]
        stream.used(alive[0], [*alive[1], *self.memories, self.share], "a replay")
        with torch._C._DisableTorchDispatch():  # all of it is on the host
            for again in self.tape:
                again()

    def pool(self) -> Memory:
        return self.share

    def reset(self) -> None:
        self.tape = []


class Streams:
    """The streams of two cards. `pinned` are addresses of pinned host memory."""

    def __init__(self, count: Callable[[str], None], where: Callable[[], str]) -> None:
        self.count, self.where = count, where
        self.wrong: list[str] = []
        self.first = next(NUMBERS)
        self.every: list[Stream] = []
        self.capture: Capture | None = None
        self.pinned: dict[int, Tensor] = {}
        self._local = threading.local()
        self.defaults = [Stream(self, torch.device("cuda", i)) for i in range(2)]

    @property
    def host(self) -> Clock:
        """What this host thread has waited for."""
        if not hasattr(self._local, "clock"):
            self._local.clock = Clock()
        clock: Clock = self._local.clock
        return clock

    @property
    def device(self) -> int:
        """The current device of this host thread."""
        return getattr(self._local, "device", 0)

    @device.setter
    def device(self, device: int) -> None:
        self._local.device = device

    def now(self, device: torch.device | int | None) -> Stream:
        """The current stream of a device; None is the current device."""
        if isinstance(device, torch.device):
            device = device.index
        elif device is not None and not isinstance(device, int):
            device = torch.device(device).index
        index = self.device if device is None else device
        found: Stream = getattr(self._local, f"stream{index}", self.defaults[index])
        return found

    def set_now(self, stream: Stream) -> None:
        """Also makes the stream's device the current one, as torch does."""
        assert stream.device.index is not None
        setattr(self._local, f"stream{stream.device.index}", stream)
        self.device = stream.device.index

    def host_knows(self, clock: Clock) -> None:
        """This thread has waited for `clock`, so copies to the host up to it have arrived."""
        _merge(self.host, clock)
        for stream in self.every:
            arrived = [each for each in stream.late if each[0] <= self.host.get(stream.number, 0)]
            stream.late = [each for each in stream.late if each[0] > self.host.get(stream.number, 0)]
            for _, into, value in arrived:
                into.copy_(value)

    def synchronize(self, device: Any = None) -> None:
        """`torch.cuda.synchronize`: the host waits for every stream of the device."""
        self.refuse_in_capture("a synchronisation")
        self.count("synchronise")
        index = self.now(device).device.index
        for stream in self.every:
            if stream.device.index == index:
                stream.wait_here()

    def captures(self, device: torch.device) -> bool:
        """Whether what is now started on `device` is recorded."""
        return self.capture is not None and self.capture.stream is self.now(device)

    def refuse_in_capture(self, what: str) -> None:
        if self.capture is not None:
            self.capture.broken = True
            raise RuntimeError(f"{CAPTURED}: {what} at {self.where()}")


def fill_with_nothing(tensor: Tensor) -> None:
    """What no program may rely on: NaN, the least integer, True."""
    if tensor.dtype.is_floating_point:
        tensor.fill_(float("nan"))
    elif tensor.dtype == torch.bool:
        tensor.fill_(True)
    else:
        tensor.fill_(torch.iinfo(tensor.dtype).min)


def results_of(value: Any) -> list[Any]:
    """What an operation returns, one or several tensors."""
    return list(value) if isinstance(value, list | tuple) else [value]


def _bytes(tensor: Tensor) -> Tensor:
    """All of the memory that a tensor is a view of."""
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())


def _merge(into: Clock, other: Clock) -> None:
    for number, tick in other.items():
        if into.get(number, 0) < tick:
            into[number] = tick
