"""Connections: until when a request's head must have come, and how many there may be, in all and of one address.

uvicorn closes a connection that is quiet after an answer, and none that never asks: 1,200 of them silenced a server
with the usual 1,024 descriptors. Bodies have times of their own; see bodies.py and uploads.py.

A quiet one stays for longer than a proxy keeps it: where the server closes first, the proxy's next request is lost. It
takes no place from others: where connections are too many, the one that was quiet for longest is closed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import h11
import uvicorn.config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

HEAD_S = 10.0  # from the connection's beginning, or the first byte behind an answer, until a request's head has come
KEPT_S = 75  # that it may be quiet behind an answer: usual proxies keep it for 60
UNREAD_S = 120.0  # that an answer may wait for its reader
MAX_OPEN, MAX_ADDRESS = 4096, 1024  # a browser opens six: 100 phones of a school have 600 behind one address
SPARE = 192  # descriptors for files, the engine's process, and uploads
FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nConnection: close\r\nRetry-After: 10\r\n\r\n"
    b"This server has as many connections as it takes; try again in a moment."
)
LATE = (
    b"HTTP/1.1 408 Request Timeout\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"The request has not come in time; send it again."
)
_OPEN: WeakKeyDictionary[ServerState, Counter[str]] = WeakKeyDictionary()  # connections of each address
_QUIET: WeakKeyDictionary[ServerState, dict[BoundedConnection, None]] = WeakKeyDictionary()  # the longest first


class BoundedConnection(H11Protocol):
    """One of them. `max_open` and `max_address` are bounds of the whole process."""

    max_open, max_address = MAX_OPEN, MAX_ADDRESS

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.timeout_keep_alive = KEPT_S
        self._counts = _OPEN.setdefault(self.server_state, Counter())
        self._quiet = _QUIET.setdefault(self.server_state, {})
        self._address = ""
        self._head: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self._counts[self._address] += 1
        if self._has_room():
            self._mind_head()
        else:
            self._end(FULL)

    def _has_room(self) -> bool:
        """There is room for it, or a quiet one makes some: of the same address, if that has too many."""
        of_address = self._counts[self._address] > self.max_address
        if not of_address and len(self.connections) <= self.max_open:
            return True
        for one in self._quiet:
            if (one._address == self._address or not of_address) and not one.transport.get_write_buffer_size():
                del self._quiet[one]
                one.timeout_keep_alive_handler()
                return True
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._quiet.pop(self, None)
        self._counts[self._address] -= 1
        if not self._counts[self._address]:
            del self._counts[self._address]
        self._head, self._unread = _cancel(self._head), _cancel(self._unread)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._quiet.pop(self, None)
        if not self.transport.is_closing():
            super().data_received(data)
            self._mind_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.our_state is self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            self._quiet[self] = None
        else:
            self._mind_head()
        if self.transport.get_write_buffer_size():
            self._mind_reader()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._mind_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread = _cancel(self._unread)

    def _should_upgrade(self) -> bool:
        return False  # nothing here speaks by WebSocket

    def _mind_head(self) -> None:
        """The time runs while no request is being answered; whatever comes of the next one leaves it running."""
        if self.transport.is_closing() or (self.cycle is not None and not self.cycle.response_complete):
            self._head = _cancel(self._head)
        elif self._head is None:
            self._head = self.loop.call_later(HEAD_S, self._end, LATE)

    def _mind_reader(self) -> None:
        if self._unread is None:
            self._unread = self.loop.call_later(UNREAD_S, self._end_unread)

    def _end_unread(self) -> None:
        self._unread = None
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def _end(self, words: bytes) -> None:
        """Says why and closes. What nobody reads is not waited for."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
            return
        self.transport.write(words)
        self.transport.close()


def _cancel(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """No timer, in its place."""
    if timer is not None:
        timer.cancel()
    return None


def bound() -> None:
    """From now on, for every uvicorn in this process. Gradio makes its own, and hands no settings on."""
    BoundedConnection.max_open, BoundedConnection.max_address = bounds(raised())
    uvicorn.config.HTTP_PROTOCOLS["auto"] = f"{__name__}:{BoundedConnection.__name__}"


def bounds(descriptors: int) -> tuple[int, int]:
    """How many connections there may be in all, and of one address, where a process may open so many descriptors."""
    most = max(min(MAX_OPEN, descriptors - SPARE), 1)
    return most, min(MAX_ADDRESS, most * 3 // 4 + 1)


def raised() -> int:
    """How many descriptors this process may open from now on: as many as the system lets it."""
    try:
        import resource
    except ImportError:  # Windows, where sockets are no descriptors
        return MAX_OPEN + SPARE
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(ValueError, OSError):  # macOS has no limit and takes none
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAX_OPEN + SPARE if soft == resource.RLIM_INFINITY else soft
