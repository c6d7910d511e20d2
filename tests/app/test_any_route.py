"""Every route of the built application, Gradio's too, with whatever anybody may send: nobody gets a 500."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from itertools import chain, product
from typing import Any

import httpx
import pytest

from draftscope_app.engine.site import Site
from draftscope_app.page import host
from draftscope_app.serve import doors
from draftscope_app.serve.refusals import CLOSED
from draftscope_app.serve.server import Served
from tests.app.conftest import idle_server
from tests.support import hostile
from tests.support.hostile import Hostile
from tests.support.runs import PATIENCE_S

AT_ONCE = 8
SAMPLE = 9  # one of so many requests of a route, where not all are sent


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with idle_server(tmp_path_factory.mktemp("served")) as one:
        yield one


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.url, timeout=PATIENCE_S) as opened:
        yield opened


def failures(url: str, requests: Sequence[Hostile], headers: dict[str, str]) -> list[str]:
    """Those that were answered with a 500 or not at all."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        parts = pool.map(lambda first: failed(url, requests[first::AT_ONCE], headers), range(AT_ONCE))
        return list(chain.from_iterable(parts))


def failed(url: str, requests: Sequence[Hostile], headers: dict[str, str]) -> list[str]:
    """One after the other, by `http.client`: httpx computes as long for a request as the server."""
    wrong, connection = [], HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE_S)
    for request in requests:
        try:
            if status(connection, request, headers) == 500:
                wrong.append(f"500: {request}")
        except (HTTPException, OSError) as error:
            wrong.append(f"{type(error).__name__}: {request}")
            connection.close()
    connection.close()
    return wrong


def status(connection: HTTPConnection, request: Hostile, headers: dict[str, str]) -> int:
    """On a new connection where the last one was closed meanwhile, as after a body that was refused unread."""
    sent = {"accept-encoding": "gzip"} | headers | request.headers
    reused = connection.sock is not None
    try:
        with suppress(BrokenPipeError, ConnectionResetError):  # it may be answered before all is sent
            connection.request(
                request.method, request.path, request.body, {k: v.encode("latin-1") for k, v in sent.items()}
            )
        answer = connection.getresponse()
    except ConnectionError:
        connection.close()
        if not reused:
            raise
        return status(connection, request, headers)
    if answer.length is None or request.method == "HEAD":  # it may go on for ever
        connection.close()
    else:
        answer.read()
    return answer.status


def paths(served: Served, of_tasks: bool) -> list[tuple[str, str]]:
    """Method and path of the routes that tasks bring, or of all others."""
    brought = {route.path for route in doors.routes(Site(), served.admission)}
    return [one for one in dict.fromkeys(hostile.routes(served.demo.app)) if (one[1] in brought) is of_tasks]


def walk(served: Served, step: int) -> None:
    routes = paths(served, of_tasks=False)
    assert {path for _, path in routes} >= {"/healthz", "/gradio_api/queue/join", "/config", "/login"}
    wanted = [one for method, path in routes for one in hostile.requests(method, path, {})[::step]]
    assert len(wanted) > 1000
    assert not failures(served.url, wanted, {})


@pytest.mark.short
def test_no_route_answers_500_to_a_sample(served: Served) -> None:
    walk(served, SAMPLE)


@pytest.mark.slow
def test_no_route_answers_500(served: Served) -> None:
    """There were 3,000 of 23,000 requests that got one."""
    walk(served, 1)


def test_no_listener_answers_500(served: Served) -> None:
    """Each is called directly, with as many inputs as it takes, of each kind."""
    calls = [
        f'{{"data": [{", ".join([value] * len(listener.inputs))}], "fn_index": {number}, "session_hash": "a", '
        f'"event_data": {value}, "trigger_id": 1}}'.encode()
        for (number, listener), value in product(served.demo.fns.items(), ('"x"', "-1", "[[]]", "null"))
    ]
    wanted = [Hostile("POST", "/gradio_api/run/predict", call, {"content-type": "application/json"}) for call in calls]
    assert not failures(served.url, wanted, {})


def test_no_function_of_the_page_answers_500(served: Served, client: httpx.Client) -> None:
    page = next(
        one for one in client.get("/config").json()["components"] if one["props"].get("elem_id") == "ds-instrument"
    )
    names = [function.__name__ for function in host.functions(Any)]  # type: ignore[arg-type]
    assert names
    calls = [
        json.dumps({"session_hash": "a", "component_id": page["id"], "fn_name": name}).removesuffix("}")
        + f', "data": {value}}}'
        for name, value in product([*names, "postprocess", "__init__", "a.b"], hostile.VALUES)
    ]
    wanted = [
        Hostile("POST", "/gradio_api/component_server", call.encode(), {"content-type": "application/json"})
        for call in calls
    ]
    assert not failures(served.url, wanted, {})


def test_routes_without_a_use_here_are_closed(client: httpx.Client) -> None:
    """They cut videos on the event loop, fetched addresses, and kept what they were sent."""
    for name in CLOSED:
        for method in ("GET", "POST"):
            assert client.request(method, f"/gradio_api/{name}x").status_code == 404, name


def test_a_refusal_of_a_call_is_its_sentence(client: httpx.Client) -> None:
    called = client.post("/gradio_api/run/decode", json={"data": ["x" * 70_000]})
    assert called.status_code == 400 and "prompt is 70,000 characters long" in called.json()["error"]
    unread = client.post("/gradio_api/run/predict", json={"data": [], "fn_index": 10_000})
    assert unread.status_code == 400 and "what a call takes is at /gradio_api/info" in unread.json()["error"]
