"""The time that one call to a server may take, and connections that keep to it.

A timeout of the HTTP client is one of a single read, so a server that sends a byte now and then is never given up.
Here every read, write and handshake of a call gets only what is left of the call's time.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable
from typing import Any

import httpcore

PIECE = 4096  # bytes that are written at once


class Clock:
    """A call that began now may take `total` seconds in all, and `silent` until the next sign of life."""

    def __init__(self, silent: float, total: float) -> None:
        self.silent, self.total = min(silent, total), total
        self._over = time.monotonic() + total
        self.alive()

    def alive(self) -> None:
        """Something whole has arrived: a head, or a line."""
        self._ends = min(time.monotonic() + self.silent, self._over)
        self.heard = False  # bytes since then

    @property
    def over(self) -> bool:
        """The whole call has taken too long."""
        return time.monotonic() >= self._over

    def left(self, most: float | None = None) -> float:
        """Seconds, at most so many. Raises `httpcore.ReadTimeout` where none are left."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout
        return left if most is None else min(left, most)


class TimedStream(httpcore.NetworkStream):
    """A connection that ends with its call's time."""

    def __init__(self, stream: httpcore.NetworkStream, clock: Clock) -> None:
        self._stream, self._clock = stream, clock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = self._stream.read(max_bytes, self._clock.left(timeout))
        self._clock.heard = True
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), PIECE):
            self._stream.write(buffer[start : start + PIECE], self._clock.left(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        stream = self._stream.start_tls(ssl_context, server_hostname, self._clock.left(timeout))
        return TimedStream(stream, self._clock)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class TimedNetwork(httpcore.NetworkBackend):
    """Connections of one call."""

    def __init__(self, clock: Clock) -> None:
        self._network, self._clock = httpcore.SyncBackend(), clock

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        stream = self._network.connect_tcp(host, port, self._clock.left(timeout), local_address, socket_options)
        return TimedStream(stream, self._clock)
