"""A server that speaks HTTP by the byte, so that it can do what no server should."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

Send: TypeAlias = Callable[[bytes], None]
Does: TypeAlias = Callable[[Send, threading.Event], None]  # what it does once a request's head was read

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


@contextmanager
def hostile(does: Does) -> Iterator[str]:
    """Its address; every connection gets the same."""
    over, listening = threading.Event(), socket.create_server(("127.0.0.1", 0))

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(65536)
            does(connection.sendall, over)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        over.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def drip(start: bytes, every: bytes) -> Does:
    """Sends `start`, and then a little for ever."""

    def does(send: Send, over: threading.Event) -> None:
        send(start)
        while not over.wait(0.02):
            send(every)

    return does


def pour(start: bytes, every: bytes) -> Does:
    """The same as fast as it is read."""

    def does(send: Send, over: threading.Event) -> None:
        send(start)
        while not over.is_set():
            send(every)

    return does
