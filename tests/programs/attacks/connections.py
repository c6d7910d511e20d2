"""Connections that send nothing, or byte by byte, more than a process has descriptors for by default."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack

from draftscope_app.serve.connections import HEAD_S
from tests.programs.attacks.outcome import Outcome
from tests.programs.attacks.server import Server

SILENT, DRIPPING, PATIENCE_S = 1200, 200, 60.0
MAX_WAIT_S, MAX_LOG = 2.0, 256 * 1024
GET = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


def attack(server: Server) -> Outcome:
    """Another visitor is answered all the while, and afterwards nothing of them is left."""
    before, worst, began = server.log.stat().st_size, 0.0, time.monotonic()
    with ExitStack() as stack:
        lines = [stack.enter_context(_line(server, "127.0.0.2")) for _ in range(SILENT + DRIPPING)]
        while time.monotonic() < began + HEAD_S + 5:
            for line in lines[:DRIPPING]:
                _drip(line)
            worst = max(worst, _answered_s(server))
            time.sleep(0.5)
        left = sum(not _is_closed(line) for line in lines)
    written = server.log.stat().st_size - before
    held = worst < MAX_WAIT_S and not left and written < MAX_LOG
    found = f"another visitor waited {worst:.2f} s at most; {left} were left open; {written / 1024:.0f} KiB of log"
    return Outcome(f"{SILENT} silent connections and {DRIPPING} dripping ones of one address", held, found)


def _line(server: Server, address: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), PATIENCE_S, source_address=(address, 0))


def _drip(line: socket.socket) -> None:
    try:
        line.send(b"G")
    except OSError:
        return  # it has been closed


def _answered_s(server: Server) -> float:
    """How long another address waits for an answer."""
    began = time.monotonic()
    try:
        with _line(server, "127.0.0.3") as line:
            line.sendall(GET)
            return time.monotonic() - began if line.recv(15) == b"HTTP/1.1 200 OK" else PATIENCE_S
    except OSError:
        return PATIENCE_S


def _is_closed(line: socket.socket) -> bool:
    line.setblocking(False)
    try:
        while line.recv(4096):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
