"""A card that is not there: tensors that say 'cuda:0' and hold real values on the CPU.

The engine's code for CUDA runs on them, so tokens can be compared with the CPU's. What a card would refuse or leave
undefined is refused or made visible here:

- two devices in one operation, and a value that is read, copied from the host or waited for while a graph is captured;
- memory that no one has written (it holds NaN), and host memory whose copy from the card was not waited for;
- memory that two streams use without waiting for each other (vector clocks), also by a replay;
- memory of a capture that is used outside it other than as the graph's output;
- a capture beside another thread's work, and operations on a stream that is not captured.

A capture has no effect, as on a card: what it wrote is undone when it ends, and a replay runs its operations again on
the same memory. Reads, copies from the host, waits, launches and replays are counted by the line that caused them.
Not shown: the bits of kernels, reuse of freed memory, times.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support.card_kernels import STAND_INS
from tests.support.card_streams import Memory, Streams

aten = torch.ops.aten
ENGINE = f"{Path('engine', 'draftscope')}/"
GRAPHS = "models/forward/graphs.py"
ONE_LAUNCH = {aten.linear.default, aten.matmul.default, aten.scaled_dot_product_attention.default}
ALLOCATES = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
INDEXED = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default}
PLAIN = {int, float, bool, type(None), torch.dtype, torch.layout, torch.memory_format}  # what most other arguments are
HOST = torch.device("cpu")
IN_CAPTURE = "operation not permitted when stream is capturing"


@functools.cache
def why_not() -> str:
    """Why there can be no such card, as a sentence; empty if there can."""
    if torch.version.cuda is not None:
        return "this torch has CUDA itself, so nothing can stand in for a card"
    from torch.utils import cpp_extension

    try:
        cpp_extension.load("draftscope_card", [str(Path(__file__).with_name("card.cpp"))], is_python_module=False)
    except (RuntimeError, OSError) as error:
        return f"a stand-in for a card needs a C++ compiler and ninja ({str(error).splitlines()[0]})"
    return ""


class OnCard(Tensor):
    """A tensor on the card; `held` are its values."""

    held: Tensor
    memory: Memory

    @staticmethod
    def __new__(cls, held: Tensor, device: torch.device, memory: Memory) -> OnCard:
        with torch._C._InferenceMode(False):  # so that it can be viewed inside and outside of that mode
            made: OnCard = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
                cls, held.size(), held.stride(), held.storage_offset(), dtype=held.dtype, device=device
            )
        made.held, made.memory = held, memory
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def new_tensor(self, data: Any, *, dtype: torch.dtype | None = None) -> Tensor:
        return torch.tensor(data, dtype=dtype or self.dtype, device=self.device)

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(_tensors(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(_tensors(index), value)

    def __repr__(self, **_: Any) -> str:
        return f"OnCard({self.held}, device={self.device})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return Card.present().run(func, args, kwargs or {})


class _Mode(TorchDispatchMode):
    """Also sees operations without a tensor on the card: what makes the first one there."""

    def __init__(self, card: Card) -> None:
        super().__init__()
        self._card = card

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and to skip that would cost more than most operations

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._card.run(func, args, kwargs or {})


class Operation:
    """What an operation is, whatever it is given."""

    _known: ClassVar[dict[int, Operation]] = {}  # by the function's address: to hash it takes as long as all else here

    @classmethod
    def of(cls, func: Any) -> Operation:
        found = cls._known.get(id(func))
        if found is None:
            found = cls._known[id(func)] = cls(func)
        return found

    def __init__(self, func: Any) -> None:
        self.func, self.name = func, func.overloadpacket.__name__
        self.stands_in = func in STAND_INS
        self.composite = func not in ONE_LAUNCH and torch._C._dispatch_has_kernel_for_dispatch_key(
            func.name(), "CompositeImplicitAutograd"
        )
        self.indexed = func in INDEXED
        self.allocates = self.name in ALLOCATES
        self.moves = func.is_view or self.name in ("detach", "alias", "lift_fresh")
        self.gives_number = func in (aten._local_scalar_dense.default, aten.equal.default)
        self._reads = bool({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & set(func.tags))
        self._writes = [
            (i, each.name)
            for i, each in enumerate(func._schema.arguments)
            if each.alias_info is not None and each.alias_info.is_write
        ]

    def reads(self, args: Any) -> bool:
        """Whether the host has to read what this gives: a number, or how large a result is."""
        if self.indexed:
            return any(each is not None and each.dtype in (torch.bool, torch.uint8) for each in args[1])
        return self._reads

    def written(self, args: Any, kwargs: dict[str, Any]) -> list[Memory]:
        if not self._writes:
            return []
        values = [args[i] if i < len(args) else kwargs.get(name) for i, name in self._writes]
        return [each.memory for each in _given(values, {})[0] if type(each) is OnCard]


class Card:
    """All devices of a machine, and what was done with them. `wrong` are sentences; a rehearsal must leave none."""

    _present: Card | None = None

    def __init__(self) -> None:
        self.counted: Counter[tuple[str, str]] = Counter()  # (what, file:line)
        self.streams = Streams(self.count, _where)
        self.memory = 80 * 10**9, 80 * 10**9  # bytes that are free, and all
        self.reserved = self.allocated = 0  # by torch's allocator
        self.mode = functools.partial(_Mode, self)

    @classmethod
    def present(cls) -> Card:
        assert cls._present is not None, "a tensor of a card that is no longer there"
        return cls._present

    @property
    def wrong(self) -> list[str]:
        return self.streams.wrong

    def count(self, what: str, times: int = 1) -> None:
        self.counted[what, _where()] += times

    def total(self, what: str) -> int:
        return sum(count for (kind, _), count in self.counted.items() if kind == what)

    # One operation

    def run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        given, wished = _given(args, kwargs)
        on_card: list[OnCard] = [each for each in given if type(each) is OnCard]
        if not on_card and (wished is None or wished.type != "cuda"):
            return func(*args, **kwargs)
        what = Operation.of(func)
        if what.composite:
            with self.mode():
                done = func.decompose(*args, **kwargs)
            if done is not NotImplemented:
                return done
        if what.name == "_to_copy" or (what.name == "copy_" and args[0].device != args[1].device):
            return self._copy(what, args, kwargs, wished)
        device = on_card[0].device if on_card else self._numbered(wished)
        if what.indexed:
            args = self._indexed(args, device)
            given, _ = _given(args, kwargs)
            on_card = [each for each in given if type(each) is OnCard]
        _refuse_two_devices(func, given, device)
        if what.reads(args):
            self._waits_here(device, "read")
            if what.gives_number:
                return func(*_held(args), **kwargs)
        return self._launched(what, args, kwargs, on_card, device)

    def _launched(
        self, what: Operation, args: Any, kwargs: dict[str, Any], on_card: list[OnCard], device: torch.device
    ) -> Any:
        memories = list({id(each.memory): each.memory for each in on_card}.values())
        if not what.moves:
            self._used(memories, what.written(args, kwargs), device, what.name)
        held_args, held_kwargs = _held(args), {key: _held(each) for key, each in kwargs.items()}
        func = STAND_INS[what.func] if what.stands_in else what.func
        result = func(*held_args, **held_kwargs)
        before = {each.address: each for each in memories}
        fresh: list[Memory] = []

        def wrapped(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            for each in on_card:
                if each.held is value:
                    return each
            memory = before.get(_pointer(value)) if value.numel() else None
            if memory is None:
                memory = Memory(value)
                fresh.append(memory)
            return OnCard(value, device, memory)

        found = wrapped(result) if type(result) is Tensor else _mapped(wrapped, result)
        if what.allocates:
            for memory in fresh:
                memory.forget()
        elif not what.moves:
            self.count("launch", _kernels(func, args))
        self._finished(func, held_args, held_kwargs, result, fresh, device, skip=what.moves or what.allocates)
        return found

    def _used(self, read: Any, written: list[Memory], device: torch.device, name: str) -> None:
        """Checks the order of this operation on the current stream after those that used its memory before."""
        stream = self.streams.now(device)
        capture = self.streams.capture
        if capture is not None:
            if capture.thread != threading.get_ident():
                self.wrong.append(f"{name} at {_where()} beside another thread's capture")
            elif capture.stream.device == device:
                if stream is not capture.stream:
                    raise RuntimeError(
                        f"{IN_CAPTURE}: {name} at {_where()} is on another stream of the captured device"
                    )
                capture.uses(read, written)
                return  # nothing happens yet
        outside = capture is None or capture.stream is not stream
        for memory in read:
            if memory.graph is not None and outside and GRAPHS not in (where := _where()):
                self.wrong.append(f"{name} at {where} uses memory of a capture outside of it")
        stream.used([each for each in read if each not in written], written, name)

    def _finished(
        self, func: Any, args: Any, kwargs: Any, result: Any, fresh: list[Memory], device: torch.device, skip: bool
    ) -> None:
        stream, capture = self.streams.now(device), self.streams.capture
        if capture is None or capture.stream is not stream:
            for memory in fresh:
                memory.written_by(stream)
            return
        for memory in fresh:
            capture.adopt(memory)
        if not skip:
            capture.record(func, args, kwargs, result, {each.address for each in fresh})

    # Copies and waits

    def _copy(self, what: Operation, args: Any, kwargs: dict[str, Any], wished: torch.device | None) -> Any:
        into = args[0] if what.name == "copy_" else None
        source = args[0] if into is None else args[1]
        waits = not (kwargs.get("non_blocking") or (into is not None and len(args) > 2 and args[2]))
        target = (wished or source.device) if into is None else into.device
        if target.type == "cuda" and isinstance(source, OnCard):  # from card to card, perhaps as another dtype
            if self._numbered(target) != source.device:
                raise RuntimeError(f"a copy from {source.device} to {target} at {_where()}: one model, one device")
            more = {key: value for key, value in kwargs.items() if key != "device"}
            return self._launched(what, args, more, [source], source.device)
        if target.type == "cuda":
            return self._from_host(what.func, args, kwargs, source, into, self._numbered(target), waits)
        return self._to_host(what.func, kwargs, source, into, waits)

    def _from_host(
        self, func: Any, args: Any, kwargs: Any, source: Tensor, into: Any, device: torch.device, waits: bool
    ) -> Any:
        pinned = _pointer(source) in self.streams.pinned
        if self.streams.captures(device) and not pinned:
            raise self._invalid(f"{IN_CAPTURE}: a copy from the host at {_where()}")
        self.count("copy")
        if into is not None:
            self._used([into.memory], [into.memory], device, "copy_")
            into.held.copy_(source)
            return into
        held = func(source, **{**kwargs, "device": HOST})
        held = held.clone() if _pointer(held) == _pointer(source) else held
        memory = Memory(held)
        made = OnCard(held, device, memory)
        self._finished(func, (), {}, held, [memory], device, skip=True)
        if waits or not pinned:
            self.streams.now(device).wait_here()
        return made

    def _to_host(self, func: Any, kwargs: Any, source: OnCard, into: Tensor | None, waits: bool) -> Any:
        later = into is not None and not waits and _pointer(into) in self.streams.pinned
        if not later:
            self._waits_here(source.device, "read")
            held = source.held.clone()
            return into.copy_(held) if into is not None else func(held, **{**kwargs, "device": HOST})
        assert into is not None
        if self.streams.captures(source.device):
            raise self._invalid(f"{IN_CAPTURE}: a copy to the host at {_where()}")
        self.count("late read")
        self._used([source.memory], [], source.device, "copy_")
        self.streams.now(source.device).arrives_later(into, source.held.clone())
        return into

    def _indexed(self, args: Any, device: torch.device) -> Any:
        """Indices that are still on the host are copied first, each with a wait."""
        indices = []
        for each in args[1]:
            if each is not None and not isinstance(each, OnCard):
                if self.streams.captures(device):
                    raise self._invalid(f"{IN_CAPTURE}: indices from the host at {_where()}")
                self.count("copy")
                each = OnCard(each.clone(), device, Memory(each))
            indices.append(each)
        return (args[0], indices, *args[2:])

    def _waits_here(self, device: torch.device, what: str) -> None:
        """The host waits for the current stream of `device`."""
        if self.streams.capture is not None:
            raise self._invalid(f"{IN_CAPTURE}: a {what} at {_where()}")
        self.count(what)
        self.streams.now(device).wait_here()

    def _invalid(self, why: str) -> RuntimeError:
        if self.streams.capture is not None:
            self.streams.capture.broken = True
        return RuntimeError(why)

    def _numbered(self, device: torch.device | None) -> torch.device:
        assert device is not None
        return device if device.index is not None else torch.device("cuda", self.streams.device)


def put(card: Card, tensor: Tensor, device: torch.device) -> OnCard:
    """A copy of a host tensor on the card, not counted."""
    held = tensor.detach().clone()
    made = OnCard(held, device, Memory(held))
    made.memory.written_by(card.streams.now(device))
    return made


@contextmanager
def card() -> Iterator[Card]:
    """A machine with two cards, until the end of the block."""
    from tests.support.card_cuda import patched

    made = Card()
    Card._present = made
    try:
        with patched(made), made.mode():
            yield made
    finally:
        Card._present = None


def _where() -> str:
    """The innermost line of the engine."""
    frame = sys._getframe(1)
    while frame is not None:
        if file := _in_the_engine(frame.f_code.co_filename):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return "a test"


@functools.cache
def _in_the_engine(file: str) -> str:
    """A file's place there; empty for any other file."""
    return file.partition(ENGINE)[2]


def _tensors(index: Any) -> Any:
    """An index whose lists are tensors of the host, which torch then copies."""
    if isinstance(index, tuple):
        return tuple(_tensors(each) for each in index)
    return torch.tensor(index) if isinstance(index, list) else index


def _given(args: Any, kwargs: dict[str, Any]) -> tuple[list[Tensor], torch.device | None]:
    """The tensors among the arguments, also those of lists, which operations do not nest, and the device they name."""
    tensors, device = [], None
    for each in (*args, *kwargs.values()) if kwargs else args:
        if (kind := type(each)) is OnCard or kind is Tensor:
            tensors.append(each)
        elif kind in PLAIN:
            continue
        elif isinstance(each, Tensor):
            tensors.append(each)
        elif isinstance(each, list | tuple):
            tensors += [one for one in each if isinstance(one, Tensor)]
        elif isinstance(each, torch.device):
            device = each
    return tensors, device


def _mapped(call: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)([_mapped(call, each) for each in value])
    return call(value)


def _pointer(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _held(value: Any) -> Any:
    if (kind := type(value)) is OnCard:
        return value.held
    if kind in PLAIN or kind is Tensor:
        return value
    if isinstance(value, list | tuple):
        return kind([_held(each) for each in value])
    return HOST if kind is torch.device else value


def _refuse_two_devices(func: Any, given: list[Tensor], device: torch.device) -> None:
    for each in given:
        if each.device != device and not (each.device.type == "cpu" and each.dim() == 0):
            raise RuntimeError(
                f"{func} at {_where()}: Expected all tensors to be on the same device, but found {device} and "
                f"{each.device}"
            )


def _kernels(func: Any, args: Any) -> int:
    """How many kernels an operation starts. Copies of a list are one if all are of one dtype and laid out alike."""
    if func is not aten._foreach_copy_.default:
        return 1
    into, source = args[:2]
    alike = all(one.shape == two.shape and one.stride() == two.stride() for one, two in zip(into, source, strict=True))
    return 1 if alike and len({each.dtype for each in (*into, *source)}) == 1 else len(into)
