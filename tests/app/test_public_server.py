"""A whole server, attacked over HTTP by anybody: bodies, uploads, other origins, and what the log keeps of it.

`make attack` does the same at length, with memory and times.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from draftscope_app.engine import log
from draftscope_app.engine.sessions import Visitors
from draftscope_app.serve import errors, uploads
from draftscope_app.serve.bodies import MAX_DEPTH, MAX_VALUES, RefusedError, refuse_many
from draftscope_app.serve.server import Served
from tests.app.conftest import idle_server
from tests.support.runs import PATIENCE_S

ROUTES = (
    *(f"/gradio_api/{path}" for path in ("queue/join", "component_server", "call/decode", "run/decode", "api/decode")),
    *(f"/gradio_api/{path}" for path in ("call/v2/decode", "cancel", "reset", "process_recording", "mcp/", "stream/a")),
    *("/login", "/left", "/healthz", "/nowhere"),
)
JSON = {"content-type": "application/json"}
MIB = 2**20


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with idle_server(tmp_path_factory.mktemp("served")) as one:
        yield one


@pytest.fixture
def client(served: Served) -> Iterator[httpx.Client]:
    limits = httpx.Limits(max_keepalive_connections=0)  # uvicorn closes a connection behind an error
    with httpx.Client(base_url=served.url, timeout=PATIENCE_S, limits=limits) as opened:
        yield opened


def chunks(body: bytes) -> Iterator[bytes]:
    """Sent without a length."""
    for start in range(0, len(body), 2**16):
        yield body[start : start + 2**16]


# Bodies.


def test_a_body_that_is_too_large_is_refused_everywhere(client: httpx.Client) -> None:
    """48 MiB silenced the server for seconds, and 400 MiB were taken."""
    body = b'{"data": ["' + b"x" * MIB + b'"]}'
    for route in ROUTES:
        for sent in (body, chunks(body)):
            answer = client.post(route, content=sent, headers=JSON)
            assert answer.status_code == 413, route
            words = "larger than 1 MiB, and this server reads no more of one; shorten its texts, which may have 65,536"
            assert words in answer.json()["error"]


def test_a_length_is_refused_before_anything_is_read(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", int(served.url.rsplit(":", 1)[1])), timeout=PATIENCE_S) as line:
        line.sendall(b"POST /gradio_api/queue/join HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 419430400\r\n\r\n")
        assert line.recv(64).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("values", [b"[]," * 20_000 + b"[]", b'{"a":0},' * 20_000 + b"1", b"[" * 60 + b"]" * 60])
def test_a_small_body_of_many_values_is_refused_unparsed(client: httpx.Client, values: bytes) -> None:
    """1 MiB of empty lists silenced the server for two seconds."""
    for route in ("queue/join", "component_server", "call/decode"):
        answer = client.post(f"/gradio_api/{route}", content=b'{"data": [' + values + b"]}", headers=JSON)
        assert answer.status_code == 413
        assert "more than 10,000 values" in answer.text or "more than 50 deep" in answer.text


@pytest.mark.parametrize(
    ("value", "refused"),
    [
        ([0] * (MAX_VALUES - 10), False),
        ([0] * (MAX_VALUES + 10), True),
        (
            {"a": [["," * 60_000, "[" * 60_000, '\\"[,{' * 9_000, "\\", '"' * 9_000]]},
            False,
        ),  # a prompt may hold all that
        (['\\"'] * (MAX_VALUES + 10), True),
        (json.loads("[" * MAX_DEPTH + "]" * MAX_DEPTH), False),
        (json.loads("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)), True),
        ([[]] * 5_000, False),
    ],
)
def test_values_are_counted_outside_texts(value: object, refused: bool) -> None:
    body = json.dumps(value).encode()
    if not refused:
        refuse_many(body)
        return
    with pytest.raises(RefusedError):
        refuse_many(body)


def test_calls_within_the_bounds_go_on(client: httpx.Client) -> None:
    answer = client.post("/gradio_api/call/decode", json={"data": ["x" * 60_000]})
    assert answer.status_code == 200 and answer.json()["event_id"]


# Uploads.


def upload(client: httpx.Client, *sizes: int) -> httpx.Response:
    files = [("files", (f"{size}-{number}.jsonl", bytes([number]) * size)) for number, size in enumerate(sizes)]
    return client.post("/gradio_api/upload", files=files)


def stored(folder: Path) -> int:
    """Bytes on the disk."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_an_upload_may_not_bring_several_of_the_largest_files(client: httpx.Client) -> None:
    """A request of a thousand files of 64 MiB was taken."""
    folder = Path(os.environ["GRADIO_TEMP_DIR"])
    answer = upload(client, 40 * MIB, 40 * MIB)
    assert answer.status_code == 413 and "maximum allowed size of 64 MiB" in answer.text
    parts = [b"--b\r\nContent-Disposition: form-data; name=files; filename=%d\r\n\r\n" % number for number in (1, 2)]
    body = b"".join(part + b"x" * 40 * MIB + b"\r\n" for part in parts) + b"--b--\r\n"
    answer = client.post(
        "/gradio_api/upload", content=chunks(body), headers={"content-type": "multipart/form-data; boundary=b"}
    )
    assert answer.status_code == 413 and "maximum allowed size of 64 MiB" in answer.text
    assert stored(folder) == 0


def test_nothing_of_an_upload_that_broke_off_stays(served: Served) -> None:
    """Each left what had come on the disk, until the server's end."""
    folder = Path(os.environ["GRADIO_TEMP_DIR"])
    head = (
        b"POST /gradio_api/upload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3000000\r\n"
        b"Content-Type: multipart/form-data; boundary=b\r\n\r\n"
        b"--b\r\nContent-Disposition: form-data; name=files; filename=a\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", int(served.url.rsplit(":", 1)[1]))) as line:
        line.sendall(head + b"x" * 2_000_000)
        until(lambda: stored(folder) > 1_000_000)
    until(lambda: stored(folder) == 0)


def test_the_oldest_uploads_make_room(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MAX_FILES", 3)
    paths = [Path(upload(client, size).json()[0]) for size in range(1, 6)]
    assert [path.exists() for path in paths] == [False, False, True, True, True]
    monkeypatch.setattr(uploads, "KEPT", 0)
    assert not Path(upload(client, 9).json()[0]).exists()


def test_only_so_many_upload_at_once(served: Served) -> None:
    port = int(served.url.rsplit(":", 1)[1])
    head = b"POST /gradio_api/upload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n"
    head += b"Content-Type: multipart/form-data; boundary=b\r\n\r\n"
    lines = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) for _ in range(uploads.AT_ONCE + 1)]
    try:
        for line in lines[:-1]:
            line.sendall(head)
        with httpx.Client(base_url=served.url, timeout=PATIENCE_S) as client:
            until(lambda: upload(client, 1).status_code == 503)
            assert "8 files are being uploaded" in upload(client, 1).json()["error"]
            for line in lines:
                line.close()
            until(lambda: upload(client, 1).status_code == 200)
    finally:
        for line in lines:
            line.close()


def until(true: object) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.02)


# Who asks, and what stays open.


def test_a_server_that_loads_models_answers_its_own_page_only(client: httpx.Client) -> None:
    """A site that resolves to 127.0.0.1, or another program's page on this machine, could have loaded models here."""
    own = str(client.base_url).rstrip("/")
    assert client.post("/left", headers={"Origin": own}).status_code == 204
    for headers in (
        {"Host": "evil.com"},
        *({"Origin": page} for page in ("http://evil.com", "http://127.0.0.1:9999", own.replace("http", "https"))),
    ):
        assert client.get("/healthz", headers=headers).status_code == 403, headers


def test_nobody_may_look_at_the_traffic(client: httpx.Client) -> None:
    for path in ("/monitoring", "/monitoring/summary", "/monitoring/key"):
        assert client.get(path).status_code == 403


def test_a_page_keeps_no_connection_and_a_program_does(client: httpx.Client) -> None:
    ended = client.get("/gradio_api/heartbeat/page", headers={"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)"})
    assert ended.status_code == 200 and not ended.content
    with client.stream("GET", "/gradio_api/heartbeat/program") as beating:
        assert next(beating.iter_text()) == "data: ALIVE\n\n"


def test_a_tab_that_says_it_was_left_is() -> None:
    visitors = Visitors()
    token = "0123456789abcdef" * 2
    mine, other = visitors.claim("mine", token), visitors.claim("other", token[::-1])
    for wrong in ("", "x" * 32, token[:-1], token + "0"):
        visitors.left_tab(wrong)
        assert mine.left_at is None
    visitors.left_tab(token)
    assert mine.left_at is not None and other.left_at is None


# The log.

SECRET = "what a visitor wrote"


def test_nothing_that_a_visitor_wrote_is_logged(
    served: Served, client: httpx.Client, capfd: pytest.CaptureFixture[str]
) -> None:
    """Gradio printed all inputs of a call that has too few of them."""
    fns = served.demo.fns
    failed = 0
    for number in fns:
        call = {"data": [SECRET], "fn_index": number, "session_hash": SECRET, "event_data": {SECRET: SECRET}}
        client.post("/gradio_api/queue/join", json=call)
        failed += client.post("/gradio_api/run/predict", json=call).status_code == 500
    client.post("/gradio_api/call/decode", json={"data": [SECRET, [SECRET], {SECRET: SECRET}]})
    for body in (b"{", b'{"data": "%s"}', b'{"data": 1, "fn_name": "%s", "component_id": "%s", "session_hash": "%s"}'):
        body = body.replace(b"%s", SECRET.encode())
        client.post("/gradio_api/component_server", content=body, headers=JSON)
        client.post("/gradio_api/call/v2/decode", content=body, headers=JSON)
    asyncio.run(asyncio.sleep(1.0))  # those in the queue fail behind the answer
    out, err = capfd.readouterr()
    assert failed > 5
    assert SECRET not in out + err, (out + err)[:2000]


def test_an_error_is_logged_by_kind_and_place(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("json")
    try:
        raise ValueError(SECRET)
    except ValueError as error:
        errors.write(error)
    finally:
        log.configure("off")
    line = json.loads(capsys.readouterr().err)
    assert line["event"] == "error" and line["kind"] == "ValueError"
    assert line["places"][-1].startswith("test_public_server.py:") and SECRET not in str(line)
