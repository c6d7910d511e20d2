"""The built Space, started as a Space starts it and driven in Chromium, behind a prefix and in a foreign frame.

`make space-test` runs this on an environment made from the Space's own requirements (DRAFTSCOPE_SPACE and
DRAFTSCOPE_SPACE_PYTHON); otherwise it builds the folder and takes the interpreter that runs the tests.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest
from gradio_client import Client

from draftscope.trace import files
from draftscope_app.reports.run_report import Decoded
from tests.support.compiled import lend_programs
from tests.support.framed import PREFIX, framed, free_port
from tests.support.visit import Visit, forget, load

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[3]
SPACE_ID = "somebody/draftscope"
PATIENCE_S = 240.0


@dataclass(frozen=True)
class Space:
    """A running Space: its own address, and the proxy's port in front of it."""

    url: str
    port: int
    process: subprocess.Popen[bytes]
    log: Path

    def lines(self, event: str) -> list[dict[str, Any]]:
        """What it has logged so far of one kind."""
        logged = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in logged if line["event"] == event]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    given = os.environ.get("DRAFTSCOPE_SPACE")
    if given:
        return Path(given).resolve()
    from draftscope_app.lab.space.folder import build

    folder = tmp_path_factory.mktemp("space") / "folder"
    build(folder, ROOT, "paid")
    lend_programs(folder / "engine/draftscope")
    return folder


@pytest.fixture(scope="module")
def space(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Space]:
    port, log = free_port(), tmp_path_factory.mktemp("log") / "log"
    own = ("PATH", "HOME", "LANG", "TMPDIR", "OMP_NUM_THREADS")
    environment = {name: os.environ[name] for name in own if name in os.environ} | {
        "SYSTEM": "spaces",
        "SPACE_ID": SPACE_ID,
        "GRADIO_SSR_MODE": "True",
        "GRADIO_SERVER_NAME": "127.0.0.1",
        "GRADIO_SERVER_PORT": str(port),
        "GRADIO_ROOT_PATH": PREFIX,
        "DRAFTSCOPE_TARGET": "embedded",
        "DRAFTSCOPE_MAX_RUNS": "2",
        "DRAFTSCOPE_MAX_UPLOAD_MB": "4",
        "DRAFTSCOPE_GRACE_S": "60",
    }
    python = Path(os.environ.get("DRAFTSCOPE_SPACE_PYTHON", sys.executable)).absolute()
    with log.open("w") as file:
        process = subprocess.Popen(
            [python, "app/start_server.py"], cwd=folder, env=environment, stdout=file, stderr=file
        )
    url = f"http://127.0.0.1:{port}"
    with framed(url) as proxy:
        running = Space(url, proxy, process, log)
        wait(running, lambda: asked(url + "/healthz")[0] == 200)
        yield running
    process.terminate()
    process.wait(60)


def wait(space: Space, true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert space.process.poll() is None and time.monotonic() < deadline, space.log.read_text()[-3000:]
        time.sleep(0.1)


def asked(url: str) -> tuple[int, str]:
    """Status and text of an answer; (0, "") where there is none."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


class Framed(Visit):
    """The page inside the outer page's frame; `page` is the frame."""

    def __init__(self, context: Any, space: Space, query: str = "") -> None:
        self.outer = context.new_page()
        self.outer.set_default_timeout(1e3 * PATIENCE_S)
        self.requests, self.errors = [], []
        self.outer.on("request", lambda request: self.requests.append(request.url))
        self.outer.on("pageerror", lambda error: self.errors.append(str(error)))
        self.outer.on(
            "console", lambda line: self.errors.append(f"{line.text} {line.location}") if line.type == "error" else None
        )
        self.outer.goto(f"http://localhost:{space.port}/?{query}")
        self.page = self.outer.frames[1]
        self.commit()

    def close(self) -> None:
        self.requests = [url for url in self.requests if not url.startswith("http://localhost")]
        self.assert_quiet()
        self.outer.close()


@pytest.fixture(scope="module")
def visitors(browser: Any) -> list[Any]:
    """Who come again and again, and have the page's files."""
    contexts = [browser.new_context(viewport={"width": 1440, "height": 1700}) for _ in range(3)]
    for context in contexts:
        context.new_page()
    return contexts


@pytest.fixture
def visit(visitors: list[Any], space: Space) -> Iterator[Callable[..., Framed]]:
    """Opens pages, each for another visitor."""
    opened: list[Framed] = []

    def opens(query: str = "") -> Framed:
        context = visitors[len(opened)]
        for name in ("localhost", "127.0.0.1"):
            forget(context, f"http://{name}:{space.port}/")
        opened.append(Framed(context, space, query))
        return opened[-1]

    yield opens
    for page in opened:
        page.close()


def test_a_run_that_a_link_names_goes_to_its_end(visit: Any) -> None:
    page = visit("max_new_tokens=24&temperature=1")
    assert page.text(".empty").startswith("Nothing has run yet. Press Run.")
    page.run()
    assert page.text(".badge") == "live"
    assert len(page.ask("e => e.store.lanes[1].end.token_ids")) == 24
    assert page.page.evaluate("() => document.querySelector('.ds-engine').textContent").startswith("llama-draftscope")


def test_scenes_for_a_room_in_a_foreign_frame(visit: Any) -> None:
    page = visit("")
    page.element.get_by_role("button", name="Scenes", exact=True).click()
    tabs = page.element.locator(".scene-nav button[aria-pressed]")
    scenes = []
    for number in range(tabs.count()):
        tabs.nth(number).click()
        scenes.append(page.ask("e => e.main.dataset.scene"))
    assert len(set(scenes)) == len(scenes) == 6
    assert PREFIX in page.ask("e => e.shadowRoot.querySelector('.full-window').href")
    page.element.get_by_role("button", name="Exit", exact=True).click()
    assert not page.ask("e => e.hasAttribute('data-scene')")


def test_the_copied_link_is_the_spaces_and_opens_the_same_settings(visit: Any) -> None:
    page = visit("drafter=draft&seed=5&gamma=6&max_new_tokens=16")
    page.page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('closed')); }")
    page.ready()
    page.menu("share")
    page.page.click("#ds-link")
    page.until("e => /seed=5/.test(e.message.field.value)")
    link = page.ask("e => e.message.field.value")
    assert link.startswith(f"https://huggingface.co/spaces/{SPACE_ID}?")
    again = visit(link.partition("?")[2])
    again.run()
    settings = again.ask("e => e.store.lanes[1].start.settings")
    assert (settings["seed"], settings["gamma"], settings["max_new_tokens"]) == (5, 6, 16)
    queries = [parse_qs(each["queryString"]) for each in again.outer.evaluate("told") if "queryString" in each]
    named = {"drafter": ["draft"], "gamma": ["6"], "seed": ["5"], "max_new_tokens": ["16"]}
    assert any(named.items() <= query.items() for query in queries), queries


def test_one_run_more_than_the_server_takes_is_refused(visit: Any) -> None:
    """Runs in steps hold their places without decoding."""
    first, second, third = (visit("max_new_tokens=512&temperature=1&drafter=plain") for _ in range(3))
    for page in (first, second, third):
        page.ready()
    for page in (first, second):
        page.page.click("#ds-step")
        page.until("e => e.store.source === 'live' && e.state === 'stepping'")
    third.page.click("#ds-run")
    third.until("e => /2 runs are decoded or waiting here/.test(e.message.text.textContent)")
    assert third.text(".empty").startswith("Nothing has run yet. Press Run.")
    for page in (first, second):
        page.page.click("#ds-stop")
        page.until("e => e.state === 'done'")


def test_a_program_gets_the_same_json(space: Space) -> None:
    wait(space, lambda: asked(space.url + "/readyz")[0] == 200)
    client = Client(space.url, verbose=False)
    told = client.predict("Once upon a time", max_new_tokens=16, gamma=3, api_name="/decode")
    assert set(told) == set(Decoded.model_fields)
    assert len(Decoded.model_validate(told).token_ids) == 16
    for wrong, sentence in (
        ({"max_new_tokens": 513}, "max_new_tokens = 513: this server writes at most 512 tokens a run; choose fewer"),
        ({"gamma": 0}, "gamma = 0: should be greater than or equal to 1."),
        ({"drafter": "drft"}, "There is no drafter 'drft'"),
        ({"prompt": ""}, "The prompt is empty"),
    ):
        with pytest.raises(Exception, match=re.escape(sentence)) as refused:
            client.predict(**{"prompt": "a", "api_name": "/decode"} | wrong)
        assert "Traceback" not in str(refused.value)


def mcp(space: Space, method: str, **parameters: Any) -> dict[str, Any]:
    """The result of one call over MCP's streamable HTTP."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
    headers = {"accept": "application/json, text/event-stream"}
    answer = httpx.post(f"{space.url}/gradio_api/mcp/", json=body, headers=headers, timeout=PATIENCE_S)
    if answer.status_code == 404:
        pytest.skip("gradio[mcp] is not installed where the Space runs")
    said = next(line[5:] for line in answer.text.splitlines() if line.startswith("data:"))
    result: dict[str, Any] = json.loads(said)["result"]
    return result


def test_decode_is_an_mcp_tool(space: Space) -> None:
    wait(space, lambda: asked(space.url + "/readyz")[0] == 200)
    tools = mcp(space, "tools/list")["tools"]
    (name,) = (tool["name"] for tool in tools)
    assert name.endswith("decode")  # a Space puts its own name before it
    assert tools[0]["inputSchema"]["properties"]["gamma"]["type"] == "integer"
    told = mcp(space, "tools/call", name=name, arguments={"prompt": "Once upon a time", "max_new_tokens": 8})
    assert not told["isError"] and "token_ids" in told["content"][0]["text"]
    refused = mcp(space, "tools/call", name=name, arguments={"prompt": "a", "gamma": 800})
    assert refused["isError"]
    assert refused["content"][0]["text"] == "gamma = 800: should be less than or equal to 64."


def test_health_and_readiness(space: Space) -> None:
    assert json.loads(asked(space.url + "/healthz")[1]) == {"status": "alive"}
    wait(space, lambda: asked(space.url + "/readyz")[0] == 200)
    through_proxy = json.loads(asked(f"http://127.0.0.1:{space.port}{PREFIX}/readyz")[1])
    assert through_proxy["ready"] and "llama-draftscope" in through_proxy["says"]


# Hostile visitors.


def test_a_visitor_reaches_nothing_of_another(visit: Any, space: Space, tmp_path: Path) -> None:
    mine, other = visit("max_new_tokens=16&temperature=1&seed=77"), visit("")
    mine.run()
    other.ready()
    other.page.click("#ds-stop")
    other.page.evaluate("() => Draftscope.fetchRest(0)")
    with other.outer.expect_download() as download:
        other.menu("share")
        other.page.click("#ds-save")
    download.value.save_as(tmp_path / "saved.jsonl.gz")
    saved = files.read(tmp_path / "saved.jsonl.gz").events[0]
    shipped = files.read(ROOT / "assets" / "traces" / "first.jsonl.gz").events[0]
    assert saved == shipped  # what the page opened with, and not the other visitor's run
    assert other.text(".badge") == "recorded"
    assert mine.ask("e => e.store.lanes[1].start.seed") == 77


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "space.yaml", "app/start_server.py", "../../etc/passwd", "assets/theme.json"]
)
def test_no_file_of_the_server_can_be_had(space: Space, path: str) -> None:
    status, text = asked(f"{space.url}/gradio_api/file={path}")
    assert status in (403, 404)
    assert "Traceback" not in text and "root:" not in text


def test_no_file_of_the_server_can_be_loaded_as_a_run(space: Space) -> None:
    config = json.loads(asked(f"{space.url}/config")[1])
    button = next(c["id"] for c in config["components"] if c["props"].get("elem_id") == "ds-load")
    upload = next(d for d in config["dependencies"] if [button, "upload"] in d["targets"])
    for path in ("/etc/passwd", str(ROOT / "assets" / "traces" / "first.jsonl.gz")):
        body = {
            "data": [{"path": path, "meta": {"_type": "gradio.FileData"}}],
            "fn_index": upload["id"],
            "session_hash": "stranger",
        }
        httpx.post(f"{space.url}/gradio_api/queue/join", json=body).raise_for_status()
        with httpx.stream("GET", f"{space.url}/gradio_api/queue/data?session_hash=stranger", timeout=30) as stream:
            messages = [json.loads(line[5:]) for line in stream.iter_lines() if line.startswith("data:")]
        done = next(message for message in messages if message["msg"] == "process_completed")
        assert not done["success"]
        assert "Traceback" not in json.dumps(messages) and "run_start" not in json.dumps(messages)


def asked_of_the_instrument(space: Space, name: str, sent: Any) -> httpx.Response:
    """Calls one of the functions that the instrument can call, as a stranger's program does."""
    config = json.loads(asked(f"{space.url}/config")[1])
    instrument = next(c["id"] for c in config["components"] if c["props"].get("elem_id") == "ds-instrument")
    body = {"component_id": instrument, "fn_name": name, "session_hash": "stranger", "data": sent}
    return httpx.post(f"{space.url}/gradio_api/component_server/", json=body)


@pytest.mark.parametrize("name", ["lesson", "again", "save"])
@pytest.mark.parametrize("sent", [None, 5, "../../etc/passwd", [], {"kind": "trace", "lesson": "../first"}, {"a": [1]}])
def test_what_strangers_ask_of_the_instrument_is_refused_in_a_sentence(space: Space, name: str, sent: Any) -> None:
    answer = asked_of_the_instrument(space, name, sent)
    assert answer.status_code == 200
    assert "Traceback" not in answer.text and "run_start" not in answer.text and "root:" not in answer.text
    assert asked_of_the_instrument(space, "preprocess", sent).status_code == 404


def test_hostile_traces_are_one_sentence_and_the_page_goes_on(visit: Any, tmp_path: Path) -> None:
    page = visit("max_new_tokens=16&temperature=1")
    page.ready()
    bomb = tmp_path / "bomb.jsonl.gz"
    with gzip.open(bomb, "wb") as file:
        for _ in range(8):
            file.write(b" " * 2**20)
    load(page, bomb)
    page.until("e => /bomb.jsonl.gz' is larger than 4 MiB unpacked/.test(e.message.text.textContent)")
    shipped = files.read(ROOT / "assets" / "traces" / "first.jsonl.gz").events
    for number, run in enumerate(("__proto__", "r999999999999", '"><img src=x onerror="window.pwned=1">')):
        hostile = tmp_path / f"hostile{number}.jsonl.gz"
        files.write(hostile, [event.model_copy(update={"run": run}) for event in shipped])
        before = page.ask("e => e.store.run")
        load(page, hostile)
        page.until(f"e => e.store.run !== {json.dumps(before)} && e.store.lanes.length === 2")
    assert page.page.evaluate("() => window.pwned") is None
    page.run()
    assert page.text(".badge") == "live"


def test_an_upload_beyond_the_limit_is_one_sentence(visit: Any, tmp_path: Path) -> None:
    page = visit("")
    page.ready()
    large = tmp_path / "large.jsonl"
    large.write_bytes(b"x" * (4 * 2**20 + 1))
    load(page, large)
    page.page.get_by_text("exceed the maximum allowed size").first.wait_for()
    assert page.text(".badge") == "recorded"
    page.errors = [error for error in page.errors if "413" not in error]


# The last one: it ends the server.


def test_told_to_end_it_finishes_what_runs_and_takes_no_more(space: Space) -> None:
    wait(space, lambda: asked(space.url + "/readyz")[0] == 200)
    client = Client(space.url, verbose=False)
    waiting = client.submit("Once upon a time", max_new_tokens=400, drafter="plain", api_name="/decode")
    wait(space, lambda: json.loads(asked(space.url + "/readyz")[1])["runs"] == 1)
    space.process.send_signal(signal.SIGTERM)
    wait(space, lambda: asked(space.url + "/readyz")[0] == 503)
    with pytest.raises(Exception, match="The server is ending"):
        client.predict("a", api_name="/decode")
    assert len(waiting.result(timeout=PATIENCE_S)["token_ids"]) == 400
    assert space.process.wait(60) == 0
    assert "Traceback" not in space.log.read_text().partition('"ending"')[2]
    assert space.lines("ended") == [space.lines("ended")[0] | {"cut_off": 0}]
