"""`torch.cuda` of a card that is not there: what the engine calls is replaced while a rehearsal runs."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.card import Card
from tests.support.card_streams import Capture, Event, Graph, Memory, Stream, Streams

GB = 10**9


@contextmanager
def patched(card: Card) -> Iterator[None]:
    """`torch.cuda` and the functions that make tensors, until the end of the block."""
    streams = card.streams
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _functions(card).items():
            patch.setattr(torch.cuda, name, value)
        for owner, name in ((torch, "tensor"), (torch, "as_tensor")):
            patch.setattr(owner, name, _made_here_first(getattr(owner, name)))
        patch.setattr(Tensor, "pin_memory", lambda tensor, *_: _pinned(streams, tensor.clone()))
        patch.setattr(Tensor, "is_pinned", lambda tensor, *_: _address(tensor) in streams.pinned)
        patch.setattr(torch, "empty", _maybe_pinned(streams, torch.empty))
        submit = ThreadPoolExecutor.submit
        patch.setattr(ThreadPoolExecutor, "submit", lambda pool, call, *args, **more: submit(
            pool, _with_mode(card, call), *args, **more))  # fmt: skip
        before = torch.__future__.get_overwrite_module_params_on_conversion()
        torch.__future__.set_overwrite_module_params_on_conversion(
            True
        )  # a module's weights become tensors of the card
        yield
        torch.__future__.set_overwrite_module_params_on_conversion(before)


def _functions(card: Card) -> dict[str, Any]:
    streams = card.streams

    def numbered(device: Any) -> torch.device:
        return streams.now(None if device is None else device).device

    def set_device(device: Any) -> None:
        streams.device = numbered(device).index

    return {
        "_lazy_init": lambda: None,
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: len(streams.defaults),
        "current_device": lambda: streams.device,
        "set_device": set_device,
        "device": functools.partial(Device, streams),
        "get_device_name": lambda device=None: "a card that is not there",
        "get_device_capability": lambda device=None: (9, 0),
        "mem_get_info": lambda device=None: card.memory,
        "memory_reserved": lambda device=None: card.reserved,
        "memory_allocated": lambda device=None: card.allocated,
        "empty_cache": lambda: streams.refuse_in_capture("emptying the cache"),
        "synchronize": streams.synchronize,
        "current_stream": lambda device=None: streams.now(device),
        "default_stream": lambda device=None: streams.defaults[numbered(device).index],
        "set_stream": streams.set_now,
        "Stream": lambda device=None, priority=0: Stream(streams, numbered(device)),
        "Event": functools.partial(Event, streams),
        "stream": functools.partial(OnStream, streams),
        "CUDAGraph": functools.partial(Graph, streams),
        "graph": functools.partial(Capturing, streams),
        "graph_pool_handle": lambda: Memory(torch.zeros(1)),
        "is_current_stream_capturing": lambda: streams.captures(torch.device("cuda", streams.device)),
    }


class Device:
    """`torch.cuda.device`."""

    def __init__(self, streams: Streams, device: Any) -> None:
        self._streams, self._device = streams, streams.now(device).device.index
        self._before = 0

    def __enter__(self) -> None:
        self._before, self._streams.device = self._streams.device, self._device

    def __exit__(self, *_: object) -> None:
        self._streams.device = self._before


class OnStream:
    """`torch.cuda.stream`: also makes the stream's device the current one."""

    def __init__(self, streams: Streams, stream: Stream | None) -> None:
        self._streams, self._stream = streams, stream
        self._before: list[Stream] = []

    def __enter__(self) -> None:
        if self._stream is not None:
            self._before = [self._streams.now(self._stream.device), self._streams.now(None)]
            self._streams.set_now(self._stream)

    def __exit__(self, *_: object) -> None:
        for stream in self._before:
            self._streams.set_now(stream)


class Capturing:
    """`torch.cuda.graph`. As there, a capture that fails leaves its stream the current one."""

    def __init__(
        self, streams: Streams, graph: Graph, pool: Any = None, stream: Any = None, capture_error_mode: str = "global"
    ) -> None:
        if not hasattr(streams, "capturing"):
            streams.capturing = Stream(streams, torch.device("cuda", streams.device))
        self._stream = stream or streams.capturing
        self._streams, self._graph = streams, graph
        graph.share = pool or graph.share
        graph.device = self._stream.device
        self._on = OnStream(streams, self._stream)

    def __enter__(self) -> None:
        self._streams.synchronize(self._stream.device)
        if threading.current_thread() is not threading.main_thread():
            self._streams.wrong.append("a capture beside the main thread's work")
        self._on.__enter__()
        self._streams.capture = Capture(self._graph, self._stream)

    def __exit__(self, *_: object) -> None:
        capture, self._streams.capture = self._streams.capture, None
        assert capture is not None
        capture.end()
        if capture.broken:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")
        self._on.__exit__()


def _made_here_first(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A tensor of Python numbers is made on the host, then copied, as torch does."""

    @functools.wraps(make)
    def made(*args: Any, device: Any = None, **more: Any) -> Tensor:
        if device is None or torch.device(device).type != "cuda":
            return make(*args, **more) if device is None else make(*args, device=device, **more)
        return make(*args, **more).to(device)

    return made


def _maybe_pinned(streams: Streams, make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(make)
    def made(*args: Any, pin_memory: bool = False, **more: Any) -> Tensor:
        return _pinned(streams, make(*args, **more)) if pin_memory else make(*args, **more)

    return made


def _pinned(streams: Streams, tensor: Tensor) -> Tensor:
    streams.pinned[_address(tensor)] = tensor  # kept, so that the address stays its own
    return tensor


def _address(tensor: Tensor) -> int:
    return 0 if tensor.device.type == "cuda" else tensor.untyped_storage().data_ptr()


def _with_mode(card: Card, call: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **more: Any) -> Any:
        with card.mode():
            return call(*args, **more)

    return run
