"""Every route of the built application with what no page sends: nobody gets a 500, and nobody waits meanwhile."""

from __future__ import annotations

import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from tests.app.conftest import idle_server
from tests.programs.attacks.outcome import Outcome
from tests.programs.attacks.server import Server, Watch
from tests.support import hostile
from tests.support.hostile import Hostile

AT_ONCE, STEP = 4, 3
MAX_WAIT_S = 1.0
HALVES = (
    ("/gradio_api/call/decode", b'{"data": ["a\\ud800"]}'),
    ("/gradio_api/call/decode", b'{"data": ["a", "plain", 0, 0, 1, 0, 0, 4, ["\\udfff"]]}'),
    ("/gradio_api/queue/join", b'{"data": ["\\ud800"], "fn_index": 1, "session_hash": "\\ud800"}'),
    ("/gradio_api/component_server", b'{"data": {"add": "\\ud800"}, "fn_name": "servers", "component_id": 1}'),
    ("/class/rooms", b'{"a": "\\ud800"}'),
)


def attack(server: Server) -> Outcome:
    with tempfile.TemporaryDirectory() as folder, idle_server(Path(folder)) as same:  # only to learn its routes
        paths = list(dict.fromkeys(hostile.routes(same.demo.app)))
    with httpx.Client(base_url=server.url, timeout=60) as client:
        room = client.post("/class/rooms").json()
        wanted = [one for way, path in paths for one in hostile.requests(way, path, {"code": room["code"]})[::STEP]]
        with ThreadPoolExecutor(AT_ONCE) as pool, Watch(server) as watch:
            answers = Counter(pool.map(lambda one: _status(client, one, room["key"]), wanted))
    found = f"{answers[500]} got a 500, {answers[0]} no answer; /healthz took {watch.late:.2f} s at most"
    tried = f"{len(wanted)} hostile requests to {len(paths)} routes"
    return Outcome(tried, not answers[500] + answers[0] and watch.late < MAX_WAIT_S, found)


def halves(server: Server) -> Outcome:
    """Half characters, wherever somebody may write."""
    with httpx.Client(base_url=server.url, timeout=60) as client:
        json_type = {"content-type": "application/json"}
        statuses = [client.post(path, content=body, headers=json_type).status_code for path, body in HALVES]
    refused = sum(400 <= status < 500 for status in statuses)
    return Outcome(f"{len(HALVES)} texts with half characters", refused == len(HALVES), f"{refused} were refused")


def _status(client: httpx.Client, request: Hostile, key: str) -> int:
    """Of the answer; 0 for none."""
    headers = {"x-class-key": key} | request.headers
    sent = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    try:
        with client.stream(request.method, request.path, content=request.body, headers=sent) as answer:
            return answer.status_code
    except httpx.HTTPError:
        return 0
