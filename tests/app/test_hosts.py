"""Who may speak to a server that loads models from its disk: its own names, addresses, and no other site's page."""

from __future__ import annotations

import re
import socket

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from draftscope_app.serve.hosts import OwnNames, known_names

NAMES = known_names("0.0.0.0", "https://proxy.example/behind", "box.example, port.example:8443")


async def _here(request: object) -> PlainTextResponse:
    return PlainTextResponse("here")


@pytest.fixture
def client() -> TestClient:
    app = Starlette(routes=[Route("/", _here, methods=["GET", "POST"])])
    app.add_middleware(OwnNames, names=NAMES)
    return TestClient(app)


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1:7860", None),
        ("localhost:7860", "http://localhost:7860"),
        ("LOCALHOST", None),
        ("[::1]:7860", "http://[::1]:7860"),
        ("192.168.1.20:7860", "http://192.168.1.20:7860"),
        (f"{socket.gethostname()}:7860", None),
        ("box.example", "https://box.example"),
        ("proxy.example", "https://proxy.example"),
        ("box.example", "https://box.example:443"),
        ("127.0.0.1:7860", "https://port.example:8443"),
        ("127.0.0.1:7860", "https://proxy.example"),  # a proxy that renames the host and leaves the origin
    ],
)
def test_its_own_names_and_addresses_are_answered(client: TestClient, host: str, origin: str | None) -> None:
    headers = {"host": host} | ({} if origin is None else {"origin": origin})
    assert client.post("/", headers=headers).text == "here"


@pytest.mark.parametrize(
    ("host", "origin", "words"),
    [
        ("evil.com", None, "not known as 'evil.com'"),
        ("evil.com:7860", "http://evil.com:7860", "DRAFTSCOPE_ALLOWED_HOSTS=evil.com"),
        ("localhost.evil.com", None, "not known"),
        ("", None, "not known"),
        ("[half", None, "not known"),
        ("x" * 5000, None, r"x{80}\.\.\."),
        ("localhost:7860", "http://evil.com", "A page of http://evil.com may not"),
        ("localhost:7860", "http://localhost:9999", "may not"),
        ("127.0.0.1:7860", "http://10.0.0.1", "may not"),
        ("127.0.0.1:7860", "http://127.0.0.1:9999", "may not"),  # another program on this machine, as are those below
        ("127.0.0.1:7860", "http://127.0.0.1", "may not"),
        ("127.0.0.1:7860", "https://127.0.0.1:7860", "may not"),
        ("127.0.0.1", "https://127.0.0.1", "may not"),
        ("127.0.0.1:7860", "http://localhost:7860", "may not"),
        ("[::1]:7860", "http://[::1]:9999", "may not"),
        ("127.0.0.1:7860", "http://127.0.0.1:none", "may not"),
        ("127.0.0.1:7860", f"http://{socket.gethostname()}:9999", "may not"),
        ("127.0.0.1:7860", "https://proxy.example:9999", "may not"),
        ("127.0.0.1:7860", "https://port.example", "may not"),
        ("localhost:7860", "null", "may not"),
    ],
)
def test_other_names_and_pages_of_other_sites_are_refused(
    client: TestClient, host: str, origin: str | None, words: str
) -> None:
    answer = client.post("/", headers={"host": host} | ({} if origin is None else {"origin": origin}))
    assert answer.status_code == 403
    assert re.search(words, answer.text)
