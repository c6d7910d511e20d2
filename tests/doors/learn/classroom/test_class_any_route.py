"""Every route of a class with whatever anybody may send, its presenter too: nobody gets a 500."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from draftscope_app.serve.server import Served
from tests.app.conftest import idle_server
from tests.app.test_any_route import SAMPLE, failures, paths
from tests.support import hostile
from tests.support.runs import PATIENCE_S


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with idle_server(tmp_path_factory.mktemp("served")) as one:
        yield one


@pytest.fixture(scope="module")
def room(served: Served) -> dict[str, str]:
    """Opened before the requests, some of which open others, as many as one address may."""
    known: dict[str, str] = httpx.post(f"{served.url}/class/rooms", timeout=PATIENCE_S).json()
    return known


@pytest.mark.parametrize(
    "step",
    [pytest.param(SAMPLE, marks=pytest.mark.short), pytest.param(1, marks=pytest.mark.slow)],
    ids=["a sample", "all"],
)
def test_no_route_of_a_room_answers_500(served: Served, room: dict[str, str], step: int) -> None:
    routes, known = paths(served, of_tasks=True), {"code": room["code"]}
    assert ("POST", "/class/{code}/turn") in routes
    wanted = [one for method, path in routes for one in hostile.requests(method, path, known)[::step]]
    assert len(wanted) > 100
    assert not failures(served.url, wanted, {"x-class-key": room["key"]})
