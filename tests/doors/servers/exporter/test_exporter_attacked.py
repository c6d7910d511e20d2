"""The exporter's port under attack: every request is answered or closed, none with a fault, and Prometheus goes on."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pytest

from draftscope.log import RoundLog
from draftscope_app.doors.servers.exporter import web
from draftscope_app.doors.servers.exporter.count_sources import LogSource, ServerSource
from draftscope_app.serve import connections
from tests.support.runs import PATIENCE_S

GET = b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
SOON_S = 0.2


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    with RoundLog(tmp_path / "rounds.jsonl", engine="mine") as log:
        log.round(drafted=3, accepted=2)
    yield from serving(LogSource(tmp_path / "rounds.jsonl"))


def serving(source: LogSource | ServerSource) -> Iterator[int]:
    """The port of a server that runs meanwhile, and is gone at the end."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = web.server(source, "127.0.0.1", 0, None)
        thread = Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        server.should_exit = True
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def line(port: int, address: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE_S, source_address=(address, 0))


def answer(port: int, sent: bytes, address: str = "127.0.0.1") -> bytes:
    """All that comes until the server closes the connection; a wait without an end is a TimeoutError."""
    with line(port, address) as opened:
        received = b""
        try:
            opened.sendall(sent)
            while more := opened.recv(65536):
                received += more
        except (ConnectionResetError, BrokenPipeError):
            pass
        return received


def status(received: bytes) -> int:
    return int(received.split(b" ", 2)[1]) if received.startswith(b"HTTP/1.1 ") else 0


def asked(method: bytes, path: bytes, *heads: bytes) -> bytes:
    given = heads if any(head.lower().startswith(b"host:") for head in heads) else (b"Host: a", *heads)
    return b"\r\n".join([method + b" " + path + b" HTTP/1.1", *given, b"Connection: close", b"", b""])


def test_prometheus_is_answered(port: int) -> None:
    received = answer(port, GET)
    assert status(received) == 200 and b"draftscope_rounds_total 1.0" in received and b"\r\nserver:" not in received


@pytest.mark.parametrize(
    "method", [b"POST", b"PUT", b"DELETE", b"PATCH", b"OPTIONS", b"TRACE", b"CONNECT", b"GETS", b"get"]
)
def test_other_methods_are_refused(port: int, method: bytes) -> None:
    assert status(answer(port, asked(method, b"/metrics"))) == 405
    assert status(answer(port, GET)) == 200


def test_a_head_alone_has_no_page(port: int) -> None:
    head, _, body = answer(port, asked(b"HEAD", b"/metrics")).partition(b"\r\n\r\n")
    assert status(head) == 200 and body == b""


PATHS = (
    b"/", b"*", b"//metrics", b"/metrics/", b"/metrics/..", b"/../metrics", b"/%2e%2e/%2e%2e/etc/passwd", b"/METRICS",
    b"/%00", b"/metrics%00", b"/%ff%fe", b"/metrics%0d%0aX:1", b"/metrics;a", b"/metrics#a", b"/\\metrics",
    b"/" + b"a" * 8000, b"/[", b"http://[/metrics", b"http://elsewhere/", b"metrics", b"/metrics\xff",
    b"/" + b"%41" * 2000,
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS, ids=lambda path: repr(path[:24]))
def test_odd_paths_are_not_there(port: int, path: bytes) -> None:
    assert status(answer(port, asked(b"GET", path))) in (400, 404)
    assert status(answer(port, GET)) == 200


@pytest.mark.parametrize(
    "host", [b"[", b"[::1", b"a:b:c", b"a:99999999", b"", b"\xff", b"a" * 4000, b"evil\\@b"], ids=repr
)
@pytest.mark.parametrize("path", [b"/metrics", b"/metrics/"], ids=repr)
def test_odd_hosts_are_no_fault(port: int, host: bytes, path: bytes) -> None:
    received = answer(port, asked(b"GET", path, b"Host: " + host))
    assert status(received) in (200, 400, 404) and (len(host) <= 2 or host not in received)


NO_REQUESTS = (
    b"\x00" * 64, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /metrics\r\n\r\n",
    b"GET /metrics HTTP/9.9\r\nHost: a\r\n\r\n", b"\r\n" * 50_000, b"GET /metrics HTTP/1.1\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"GET /metrics HTTP/1.1\r\n X: folded\r\n\r\n",
    b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
    b"POST /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: nothing\r\n\r\n",
)  # fmt: skip


@pytest.mark.parametrize("sent", NO_REQUESTS, ids=lambda sent: repr(sent[-24:]))
def test_what_is_no_request_is_closed(port: int, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    for bound in ("HEAD_S", "KEPT_S"):
        monkeypatch.setattr(connections, bound, SOON_S)
    assert status(answer(port, sent)) in (0, 200, 400, 404, 405, 408, 501)
    until_answered(port, "127.0.0.1")  # a busy machine may be too late with a whole head, too


@pytest.mark.parametrize("endless", [b"X: " + b"a" * 4000 + b"\r\n", b"a" * 4000], ids=["many heads", "one long head"])
def test_heads_without_an_end_are_cut_off(port: int, endless: bytes) -> None:
    with line(port) as opened:
        opened.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\nY: ")
        with pytest.raises(OSError, match=r"[Rr]eset|[Bb]roken"):
            opened.sendall(endless * 10_000)  # 40 MB
    assert status(answer(port, GET)) == 200


@pytest.mark.parametrize("begun", [b"", b"G", b"GET /metrics HTTP/1.1\r\nHost: a\r\nX-"])
def test_heads_that_do_not_come_have_a_time(port: int, monkeypatch: pytest.MonkeyPatch, begun: bytes) -> None:
    monkeypatch.setattr(connections, "HEAD_S", SOON_S)
    assert status(answer(port, begun)) == 408


def test_a_body_that_nobody_reads_has_a_time_too(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", SOON_S)
    head = b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 900000000\r\n\r\n"
    assert status(answer(port, head + b"x" * 100)) == 405


def test_many_connections_of_one_address_keep_nobody_out(port: int) -> None:
    """32 that said nothing kept Prometheus out."""
    with ExitStack() as stack:
        silent = [stack.enter_context(line(port, "127.0.0.2")) for _ in range(200)]
        until_answered(port, "127.0.0.3")  # the refused ones are gone a moment later
        assert status(answer(port, GET, "127.0.0.2")) == 503
        refused = sum(one.recv(12) == b"HTTP/1.1 503" for one in silent[web.FewConnections.max_address :])
        assert refused == len(silent) - web.FewConnections.max_address
    until_answered(port, "127.0.0.2")


def test_many_addresses_are_bounded_in_all(port: int) -> None:
    with ExitStack() as stack:
        for number in range(web.FewConnections.max_open):
            stack.enter_context(line(port, f"127.0.0.{10 + number % 40}"))
        assert status(answer(port, GET, "127.0.0.3")) == 503
    until_answered(port, "127.0.0.3")


def test_many_that_ask_at_once_are_all_answered(port: int) -> None:
    with ExitStack() as stack:
        asking = [stack.enter_context(line(port, f"127.0.0.{2 + number % 4}")) for number in range(60)]
        for one in asking:
            one.sendall(GET)
        assert all(one.recv(15) == b"HTTP/1.1 200 OK" for one in asking)


def test_a_server_that_never_answers_is_said_and_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "KEPT_S", 60.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in serving(ServerSource(f"http://127.0.0.1:{silent.getsockname()[1]}")):
            received = answer(port, GET)
            assert status(received) == 200 and b"draftscope_up 0.0" in received


def until_answered(port: int, address: str) -> None:
    """Closed connections are forgotten a moment later."""
    deadline = time.monotonic() + PATIENCE_S
    while status(answer(port, GET, address)) != 200:
        assert time.monotonic() < deadline
        time.sleep(0.02)
