"""A whole server, attacked over HTTP by anybody: bodies, uploads, other origins, and what the log keeps of it.

`make attack` does the same at length, with memory and times.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from gradio.route_utils import GradioUploadFile

from draftscope.base.errors import DraftscopeError
from draftscope_app.engine import log
from draftscope_app.engine.visitors import Visitors
from draftscope_app.serve import bodies, logged_errors, uploads
from draftscope_app.serve.bodies import MAX_DEPTH, MAX_VALUES, RefusedError, refuse_many
from draftscope_app.serve.server import Served
from draftscope_app.serve.strict_json import refuse_loose
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


def test_bodies_that_come_slowly_hold_no_more_memory_than_that(
    served: Served, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand connections may have begun one each."""
    monkeypatch.setattr(bodies, "MAX_COMING", 200_000)
    call, port = {"data": ["x" * 60_000]}, int(served.url.rsplit(":", 1)[1])
    head = b"POST /gradio_api/queue/join HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 190000\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.sendall(head + b"x" * 180_000)
        until(lambda: client.post("/gradio_api/call/decode", json=call).status_code == 503)
    until(lambda: client.post("/gradio_api/call/decode", json=call).status_code == 200)


@pytest.mark.parametrize("values", [b"[]," * 20_000 + b"[]", b'{"a":0},' * 20_000 + b"1", b"[" * 60 + b"]" * 60])
def test_a_small_body_of_many_values_is_refused_unparsed(client: httpx.Client, values: bytes) -> None:
    """1 MiB of empty lists silenced the server for two seconds."""
    for route in ("queue/join", "component_server", "call/decode"):
        answer = client.post(f"/gradio_api/{route}", content=b'{"data": [' + values + b"]}", headers=JSON)
        assert answer.status_code == 413
        assert "more than 10,000 values" in answer.text or "more than 50 deep" in answer.text


@pytest.mark.parametrize("kind", ["multipart/x", "multipart/form-data; boundary=b", "text/plain", "image/png"])
@pytest.mark.parametrize("values", [b"[]," * 340_000 + b"[]", b"[" * 900 + b"]" * 900])
def test_a_body_is_judged_by_what_it_is(client: httpx.Client, kind: str, values: bytes) -> None:
    """Under the name `multipart/x` 1 MiB of lists silenced the server for a second, and nested ones failed in it."""
    for path in ("/gradio_api/call/decode", "/gradio_api/component_server", "/class/rooms", "/left"):
        answer = client.post(path, content=b'{"data": [' + values + b"]}", headers={"content-type": kind})
        assert answer.status_code == 413, path


@pytest.mark.parametrize("path", ["/gradio_api/mcp/gradio_api/upload", "/class/gradio_api/upload"])
def test_no_other_path_is_an_upload(client: httpx.Client, path: str) -> None:
    assert client.post(path, content=b"[]," * 340_000, headers=JSON).status_code == 413


LOOSE = (
    *(b'{"a": NaN}', b"[-Infinity]", b'["\\ud800"]', b"NaN", b'{"a": ["\xed\xa0\x80"]}'),
    *('{"a": [1]}'.encode(coding) for coding in ("utf-16", "utf-16-le", "utf-32", "utf-8-sig")),
)
NUMBERS = tuple(b'{"a": [%s]}' % number for number in (b"1e999", b"-1e400", b"9" * 19, b"9" * 4_000))
STRICT = (  # or no JSON at all
    *(b"", b"{", b"0123456789" * 5, b"7" * 5_000, b'{"a": "\\ud83d\\ude00"}', "é".encode("latin-1")),
    b"[9223372036854775807, -9223372036854775808, 1.5, 1e-300, true, null]",
)


def test_json_is_what_the_standard_says() -> None:
    """Python reads more, and what it makes of it can be in no answer."""
    for body in STRICT:
        refuse_loose(body)
    for refused, words in ((LOOSE, "not JSON as the standard has it"), (NUMBERS, "between -2^63 and 2^63")):
        for body in refused:
            with pytest.raises(DraftscopeError, match=re.escape(words)) as sentence:
                refuse_loose(body)
            assert len(str(sentence.value)) < 200


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
    sizes = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # the server deletes it meanwhile
            sizes += path.stat().st_size if path.is_file() else 0
    return sizes


def test_an_upload_may_not_bring_several_of_the_largest_files(client: httpx.Client) -> None:
    """A request of a thousand files of 64 MiB was taken."""
    folder = Path(os.environ["GRADIO_TEMP_DIR"])
    before = stored(folder)  # of other tests
    answer = upload(client, 40 * MIB, 40 * MIB)
    assert answer.status_code == 413 and "maximum allowed size of 64 MiB" in answer.text
    parts = [b"--b\r\nContent-Disposition: form-data; name=files; filename=%d\r\n\r\n" % number for number in (1, 2)]
    body = b"".join(part + b"x" * 40 * MIB + b"\r\n" for part in parts) + b"--b--\r\n"
    answer = client.post(
        "/gradio_api/upload", content=chunks(body), headers={"content-type": "multipart/form-data; boundary=b"}
    )
    assert answer.status_code == 413 and "maximum allowed size of 64 MiB" in answer.text
    until(lambda: stored(folder) == before)


def test_nothing_of_an_upload_that_broke_off_stays(served: Served) -> None:
    """Each left what had come on the disk, until the server's end."""
    folder = Path(os.environ["GRADIO_TEMP_DIR"])
    before = stored(folder)
    head = (
        b"POST /gradio_api/upload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3000000\r\n"
        b"Content-Type: multipart/form-data; boundary=b\r\n\r\n"
        b"--b\r\nContent-Disposition: form-data; name=files; filename=a\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", int(served.url.rsplit(":", 1)[1]))) as line:
        line.sendall(head + b"x" * 2_000_000)
        until(lambda: stored(folder) > before + 1_000_000)
    until(lambda: stored(folder) == before)


def test_the_oldest_uploads_make_room(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MAX_FILES", 3)
    paths = [Path(upload(client, size).json()[0]) for size in range(1, 6)]
    assert [path.exists() for path in paths] == [False, False, True, True, True]
    monkeypatch.setattr(uploads, "KEPT", 0)
    assert not Path(upload(client, 9).json()[0]).exists()


@pytest.mark.parametrize("place", ["write", "rename"])
def test_a_full_disk_is_one_sentence_and_nothing_of_the_upload_stays(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """It was a bare 500, and what had come stayed."""

    async def written(file: GradioUploadFile, content: bytes) -> None:
        file.file.write(content[:100])
        file.file.flush()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def folder_made(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if place == "write":
        monkeypatch.setattr(GradioUploadFile, "write", written)
    else:
        monkeypatch.setattr(Path, "mkdir", folder_made)
    folder = Path(os.environ["GRADIO_TEMP_DIR"])
    before = stored(folder)
    answer = upload(client, 1000)
    assert answer.status_code == 507 and "disk of the server is full" in answer.json()["error"]
    until(lambda: stored(folder) == before)  # the part goes once the answer has been sent


@pytest.mark.parametrize(
    "kind", ["charset=utf-7; boundary=b", "boundary=b; charset=punycode", "Charset=utf-16;boundary=b"]
)
def test_names_of_files_in_other_codings_are_refused(client: httpx.Client, kind: str) -> None:
    """UTF-7 writes half characters, which no file system and no answer takes."""
    body = b"--b\r\nContent-Disposition: form-data; name=files; filename=+2AA-.jsonl\r\n\r\nx\r\n--b--\r\n"
    answer = client.post("/gradio_api/upload", content=body, headers={"content-type": f"multipart/form-data; {kind}"})
    assert answer.status_code == 400 and "another coding" in answer.json()["error"]


def test_only_so_many_upload_at_once(served: Served) -> None:
    port = int(served.url.rsplit(":", 1)[1])
    head = b"POST /gradio_api/upload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n"
    head += b"Content-Type: multipart/form-data; boundary=b\r\n\r\n"
    lines = [
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) for _ in range(uploads.AT_ONCE_ADDRESS + 1)
    ]
    try:
        for line in lines[:-1]:
            line.sendall(head)
        with httpx.Client(base_url=served.url, timeout=PATIENCE_S) as client:
            until(lambda: upload(client, 1).status_code == 503)
            assert "Too many files are being uploaded" in upload(client, 1).json()["error"]
            elsewhere = httpx.HTTPTransport(local_address="127.0.0.3")
            with httpx.Client(base_url=served.url, timeout=PATIENCE_S, transport=elsewhere) as other:
                assert upload(other, 1).status_code == 200
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
        failed += client.post("/gradio_api/run/predict", json=call).status_code == 400
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
        logged_errors.write(error)
    finally:
        log.configure("off")
    line = json.loads(capsys.readouterr().err)
    assert line["event"] == "error" and line["kind"] == "ValueError"
    assert line["places"][-1].startswith("test_public_server.py:") and SECRET not in str(line)
