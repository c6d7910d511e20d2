"""`decode` over plain HTTP: what is left out has its default, and every mistake is one sentence."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from draftscope.base.errors import DraftscopeError
from draftscope_app.engine.admission import Admission
from draftscope_app.engine.config import Limits
from draftscope_app.engine.jobs import DrafterChoice, EngineStatus
from draftscope_app.engine.notice import Notice
from draftscope_app.serve import decode_endpoint
from draftscope_app.serve.calls import FilledIn

DEFAULTS = decode_endpoint.defaults()


async def _echo(request: Request) -> JSONResponse:
    return JSONResponse(await request.json())


@pytest.fixture
def client() -> TestClient:
    paths = ("/gradio_api/call/decode", "/gradio_api/call/other")
    app = Starlette(routes=[Route(path, _echo, methods=["POST"]) for path in paths])
    app.add_middleware(FilledIn, defaults=DEFAULTS)
    return TestClient(app)


def test_a_prompt_is_enough(client: TestClient) -> None:
    """Without all 31 values the answer was `{"error": null}`."""
    call = client.post("/gradio_api/call/decode", json={"data": ["abc", "ngram"], "session_hash": "mine"}).json()
    assert call == {"data": ["abc", "ngram", *DEFAULTS[1:]], "session_hash": "mine"}
    whole = {"data": ["abc", *DEFAULTS]}
    assert client.post("/gradio_api/call/decode", json=whole).json() == whole
    assert client.post("/gradio_api/call/other", json={"data": ["abc"]}).json() == {"data": ["abc"]}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"hello", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"{}", "no list 'data' that begins with the prompt"),
        (b'{"data": []}', "no list 'data'"),
        (b'{"data": {"prompt": "abc"}}', "no list 'data'"),
        (b"[1]", "no list 'data'"),
        (
            json.dumps({"data": ["abc", *DEFAULTS, 1]}).encode(),
            f"has {len(DEFAULTS) + 2} values, and decode takes at most",
        ),
    ],
)
def test_a_call_that_cannot_be_read_is_one_sentence(client: TestClient, body: bytes, words: str) -> None:
    answer = client.post("/gradio_api/call/decode", content=body)
    assert answer.status_code == 400 and words in answer.json()["error"]


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        (5, 'prompt = 5 is not a text; send one in quotation marks, such as "5".'),
        (None, "prompt = None is not a text"),
        (["a"], "is not a text"),
        ("a\ud800b", "prompt contains \\ud800, which is half of a character"),
    ],
)
def test_a_prompt_that_is_no_text_says_why(prompt: Any, words: str) -> None:
    engine: Any = None
    with pytest.raises(DraftscopeError) as told:
        Admission(engine, Limits()).admit({"prompt": prompt}, pytest.fail)
    assert words in str(told.value)


@pytest.mark.parametrize(
    ("able", "chosen"), [(("draft", "eagle3"), "draft"), (("eagle3", "ngram"), "eagle3"), ((), "draft")]
)
def test_the_usual_drafter_is_one_that_can_run(able: tuple[str, ...], chosen: str) -> None:
    """On a server of SmolLM2 a call without a drafter was refused: it has no draft model, and 'draft' was the default.
    A call that comes while the models load waits for them."""
    drafters = tuple(DrafterChoice(name, name, True, name in able, "", ()) for name in ("draft", "eagle3", "ngram"))
    engine: Any = SimpleNamespace(changed=Notice(), status=EngineStatus())

    async def asked() -> str:
        asking = asyncio.ensure_future(decode_endpoint._usual(engine))
        await asyncio.sleep(0)
        assert not asking.done()
        engine.status = EngineStatus("ready", "stand-in", drafters)
        engine.changed.give()
        return await asking

    assert asyncio.run(asked()) == chosen
    assert DEFAULTS[0] == ""
