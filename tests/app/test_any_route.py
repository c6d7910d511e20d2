"""Every route of the built application, Gradio's too, with whatever anybody may send: nobody gets a 500."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
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


def failures(client: httpx.Client, requests: Iterable[Hostile], headers: dict[str, str]) -> list[str]:
    """Those that were answered with a 500 or not at all."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(filter(None, pool.map(lambda one: failure(client, one, headers), requests)))


def failure(client: httpx.Client, request: Hostile, headers: dict[str, str]) -> str:
    sent = [(name.encode(), value.encode("latin-1")) for name, value in (headers | request.headers).items()]
    try:
        with client.stream(request.method, request.path, content=request.body, headers=sent) as answer:
            return f"500: {request}" if answer.status_code == 500 else ""
    except httpx.HTTPError as error:
        return f"{type(error).__name__}: {request}"


def paths(served: Served, of_tasks: bool) -> list[tuple[str, str]]:
    """Method and path of the routes that tasks bring, or of all others."""
    brought = {route.path for route in doors.routes(Site(), served.admission)}
    return [one for one in dict.fromkeys(hostile.routes(served.demo.app)) if (one[1] in brought) is of_tasks]


def walk(served: Served, client: httpx.Client, step: int) -> None:
    routes = paths(served, of_tasks=False)
    assert {path for _, path in routes} >= {"/healthz", "/gradio_api/queue/join", "/config", "/login"}
    wanted = [one for method, path in routes for one in hostile.requests(method, path, {})[::step]]
    assert len(wanted) > 1000
    assert not failures(client, wanted, {})


@pytest.mark.short
def test_no_route_answers_500_to_a_sample(served: Served, client: httpx.Client) -> None:
    walk(served, client, SAMPLE)


@pytest.mark.slow
def test_no_route_answers_500(served: Served, client: httpx.Client) -> None:
    """There were 3,000 of 23,000 requests that got one."""
    walk(served, client, 1)


def test_no_listener_answers_500(served: Served, client: httpx.Client) -> None:
    """Each is called directly, with as many inputs as it takes, of each kind."""
    calls = [
        f'{{"data": [{", ".join([value] * len(listener.inputs))}], "fn_index": {number}, "session_hash": "a", '
        f'"event_data": {value}, "trigger_id": 1}}'.encode()
        for (number, listener), value in product(served.demo.fns.items(), ('"x"', "-1", "[[]]", "null"))
    ]
    wanted = [Hostile("POST", "/gradio_api/run/predict", call, {"content-type": "application/json"}) for call in calls]
    assert not failures(client, wanted, {})


def test_no_function_of_the_page_answers_500(client: httpx.Client) -> None:
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
    assert not failures(client, wanted, {})


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
