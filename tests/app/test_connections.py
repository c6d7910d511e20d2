"""Connections that ask nothing, too slowly, too many at once, or never read: real sockets against a whole server."""

from __future__ import annotations

import json
import resource
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from draftscope_app.engine import log
from draftscope_app.serve import bodies, connections, logged_errors, uploads
from draftscope_app.serve.connections import MAX_ADDRESS, MAX_OPEN, BoundedConnection, bounds
from draftscope_app.serve.server import Served
from tests.app.conftest import idle_server
from tests.support.runs import PATIENCE_S

SOON_S = 0.2
GET = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
POST = b"POST /gradio_api/queue/join HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 900\r\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with idle_server(tmp_path_factory.mktemp("served")) as one:
        yield one


@contextmanager
def line(served: Served, address: str = "127.0.0.1") -> Iterator[socket.socket]:
    port = int(served.url.rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S, source_address=(address, 0)) as opened:
        yield opened


def all_of(opened: socket.socket) -> bytes:
    """All that comes until the server closes the connection."""
    received = b""
    while True:
        try:
            more = opened.recv(65536)
        except ConnectionResetError:
            more = b""
        if not more:
            return received
        received += more


def asked(opened: socket.socket) -> bytes:
    """The whole answer to a request."""
    opened.sendall(GET)
    received = b""
    while not received.endswith(b"}"):
        more = opened.recv(65536)
        assert more, received
        received += more
    return received


def drip(opened: socket.socket, text: bytes) -> None:
    """Byte by byte and without an end, until the server closes the connection."""
    deadline = time.monotonic() + PATIENCE_S
    opened.settimeout(0.02)
    while time.monotonic() < deadline:
        try:
            opened.sendall(text)
            if not opened.recv(4096):
                return
        except TimeoutError:
            continue
        except OSError:
            return
    raise TimeoutError("it was never closed")


# Times.


@pytest.mark.parametrize("begun", [b"", b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-"])
def test_a_connection_whose_request_does_not_come_is_closed(
    served: Served, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    """It stayed for ever, and 1,200 of them silenced a server."""
    monkeypatch.setattr(connections, "HEAD_S", SOON_S)
    with line(served) as opened:
        opened.sendall(begun)
        assert all_of(opened).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("first", [b"", GET, b"POST /left HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n"])
def test_a_head_that_drips_is_cut_off(served: Served, monkeypatch: pytest.MonkeyPatch, first: bytes) -> None:
    """Behind an answer too, and behind a refusal whose body still comes."""
    monkeypatch.setattr(connections, "HEAD_S", SOON_S)
    with line(served) as opened:
        opened.sendall(first)
        if first:
            opened.recv(64)
        drip(opened, b"G")


@pytest.mark.parametrize(
    ("head", "limits"),
    [
        (POST + b"\r\n", ((bodies, "BODY_S"),)),
        (POST.replace(b"Content-Length: 900", b"Transfer-Encoding: chunked") + b"\r\n", ((bodies, "BODY_S"),)),
        (
            POST.replace(b"queue/join", b"upload") + b"Content-Type: multipart/form-data; boundary=b\r\n\r\n",
            ((uploads, "UPLOAD_S"),),
        ),
    ],
)
def test_a_body_that_drips_is_cut_off(
    served: Served, monkeypatch: pytest.MonkeyPatch, head: bytes, limits: tuple[tuple[object, str], ...]
) -> None:
    for module, name in ((connections, "HEAD_S"), *limits):
        monkeypatch.setattr(module, name, SOON_S)
    with line(served) as opened:
        opened.sendall(head)
        drip(opened, b"1\r\nx\r\n" if b"chunked" in head else b"-")


def test_an_answer_that_nobody_reads_is_dropped(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNREAD_S", SOON_S)
    page = GET.replace(b"/healthz", b"/config")
    with line(served) as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        opened.settimeout(PATIENCE_S)
        with pytest.raises(OSError, match=r"[Rr]eset|[Bb]roken"):
            opened.sendall(page * 100_000)


def test_a_connection_in_use_is_left_open(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A heartbeat says something every 15 s at most: its head has come."""
    monkeypatch.setattr(connections, "HEAD_S", SOON_S)
    with ExitStack() as stack:
        first = b"HTTP/1.1 408 "
        while first.startswith(b"HTTP/1.1 408 "):  # this machine was too busy to send the head in time
            opened = stack.enter_context(line(served))
            opened.sendall(GET.replace(b"/healthz", b"/gradio_api/heartbeat/a"))
            first = opened.recv(4096)
        opened.settimeout(3 * SOON_S)
        for _ in range(2):  # what it says first may come in two pieces
            try:
                assert opened.recv(4096)
            except TimeoutError:
                break


def test_a_connection_that_is_quiet_behind_an_answer_is_kept_for_the_next_request(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was closed after 5 s, at times just as a proxy sent a request."""
    monkeypatch.setattr(connections, "HEAD_S", SOON_S)
    with line(served) as opened:
        for _ in range(2):
            assert asked(opened).startswith(b"HTTP/1.1 200 OK")
            opened.settimeout(2 * SOON_S)
            with pytest.raises(TimeoutError):
                opened.recv(1)
            opened.settimeout(PATIENCE_S)
        (kept,) = (one for one in served.demo.server.server_state.connections if one.client == opened.getsockname())
        assert kept.timeout_keep_alive == connections.KEPT_S


def test_a_quiet_connection_is_closed_without_a_word(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its next request would take an answer for its own."""
    monkeypatch.setattr(connections, "KEPT_S", SOON_S)
    with line(served) as opened:
        asked(opened)
        assert all_of(opened) == b""


# Numbers.


@pytest.mark.parametrize("most", ["max_address", "max_open"])
def test_where_connections_are_too_many_the_longest_quiet_one_makes_room(
    served: Served, monkeypatch: pytest.MonkeyPatch, most: str
) -> None:
    """Not one that is answered, nor one whose request has begun."""
    until(lambda: not served.demo.server.server_state.connections)
    monkeypatch.setattr(BoundedConnection, most, 4)
    with ExitStack() as stack:
        busy, begun, first, second = (stack.enter_context(line(served)) for _ in range(4))
        busy.sendall(GET.replace(b"/healthz", b"/gradio_api/heartbeat/a"))
        for quiet in (begun, first, second):
            asked(quiet)
        begun.sendall(b"G")
        assert busy.recv(4096)
        until(lambda: len(connections._QUIET[served.demo.server.server_state]) == 2)
        assert answered(served, "127.0.0.1" if most == "max_address" else "127.0.0.9")
        assert all_of(first) == b""
        begun.sendall(GET[1:])
        assert begun.recv(15) == b"HTTP/1.1 200 OK"
        assert asked(second).startswith(b"HTTP/1.1 200 OK")


def test_more_connections_of_an_address_are_refused_and_others_go_on(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BoundedConnection, "max_address", 5)
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(line(served, "127.0.0.2"))
        with line(served, "127.0.0.2") as sixth:
            answer = all_of(sixth)
            assert answer.startswith(b"HTTP/1.1 503 ") and b"as many connections as it takes" in answer
        assert answered(served, "127.0.0.3")
    until(lambda: answered(served, "127.0.0.2"))


def test_more_connections_in_all_are_refused_until_some_have_gone(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    until(lambda: not served.demo.server.server_state.connections)
    monkeypatch.setattr(BoundedConnection, "max_open", 4)
    with ExitStack() as stack:
        for number in range(4):
            stack.enter_context(line(served, f"127.0.0.{2 + number}"))
        until(lambda: len(served.demo.server.server_state.connections) == 4)
        assert not answered(served, "127.0.0.9")
    until(lambda: answered(served, "127.0.0.9"))


def test_a_hundred_phones_behind_one_address_are_answered(served: Served) -> None:
    """Six connections each, as a browser opens them, all at once."""
    with ExitStack() as stack:
        phones = [stack.enter_context(line(served)) for _ in range(600)]
        for phone in phones:
            phone.sendall(GET)
        assert all(phone.recv(15) == b"HTTP/1.1 200 OK" for phone in phones)


def test_a_school_and_a_stranger_fit_into_the_usual_descriptors() -> None:
    assert bounds(1_048_576) == (MAX_OPEN, MAX_ADDRESS)
    for descriptors in (1024, 4096, 65_536):
        most, address = bounds(descriptors)
        assert most < descriptors and 600 <= address < most
    assert bounds(64) == (1, 1)


def test_descriptors_are_raised_to_the_hard_limit(served: Served) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft == hard


def answered(served: Served, address: str) -> bool:
    with line(served, address) as opened:
        opened.sendall(GET)
        try:
            return opened.recv(15) == b"HTTP/1.1 200 OK"
        except ConnectionResetError:
            return False


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# The log.


def test_what_repeats_is_written_once_a_minute() -> None:
    now = [0.0]
    repeats = logged_errors.Repeats(lambda: now[0])
    assert [repeats.due("a") for _ in range(1000)].count(None) == 999
    assert repeats.due("b") == 0
    now[0] = logged_errors.AGAIN_S
    assert repeats.due("a") == 999 and repeats.due("a") is None
    for number in range(10 * logged_errors.MAX_KINDS):
        repeats.due(number)
    assert len(repeats._written) <= logged_errors.MAX_KINDS


def test_a_flood_of_errors_and_of_no_requests_is_a_few_lines(
    served: Served, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log grew by 42 MB in 90 s."""
    monkeypatch.setattr(logged_errors, "_REPEATS", logged_errors.Repeats())
    log.configure("json")
    try:
        call = {"data": ["x"], "fn_index": next(iter(served.demo.fns)), "session_hash": "a"}
        with httpx.Client(base_url=served.url, timeout=PATIENCE_S) as client:
            for _ in range(50):
                client.post("/gradio_api/run/predict", json=call)
                with line(served) as opened:
                    opened.sendall(b"\x00\x01 no request\r\n\r\n")
                    assert all_of(opened).startswith(b"HTTP/1.1 400 ")
    finally:
        log.configure("off")
    out, err = capfd.readouterr()
    assert len((out + err).splitlines()) < 10
    assert any(json.loads(text)["event"] == "error" for text in err.splitlines() if text.startswith("{"))
