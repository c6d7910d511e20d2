"""How a server ends: Ctrl-C at any moment, SIGTERM within the grace, whatever is going on. Real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.framed import free_port
from tests.support.runs import PATIENCE_S

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SERVER = """
import sys
sys.path[:0] = {sources!r}
if __name__ == "__main__":
    from draftscope_app.engine import select
    from draftscope_app.engine.config import Environment
    from draftscope_app.engine.process import EngineProcess
    from draftscope_app.serve.server import serve
    from tests.support.stand_ins import decodes_for_ever
    select.engine = lambda load, *_: EngineProcess(load, decodes_for_ever)
    serve("127.0.0.1", {port}, environment=Environment.read())
"""
SWALLOWS = """
    from draftscope_app.page import page
    def build(*_):
        import time
        while True:  # as a library that catches what is raised while it is imported
            try:
                time.sleep(60)
            except BaseException:
                pass
    page.build = build
"""
HANGS = """
    import time
    from draftscope_app.serve.server import Served
    Served.close = lambda self: time.sleep(60)
"""
SERVE = [sys.executable, "-m", "draftscope_app.cli.main", "serve", "--no-browser", "--target", "embedded"]
SOURCES = [str(ROOT / "engine"), str(ROOT / "app"), str(ROOT)]


class Server:
    def __init__(self, command: list[str], port: int, log: Path) -> None:
        self.url, self.log = f"http://127.0.0.1:{port}", log
        self.client = httpx.Client(base_url=self.url, timeout=5)  # one: each makes a TLS context, which takes longer
        environment = os.environ | {"DRAFTSCOPE_GRACE_S": "7", "PYTHONPATH": os.pathsep.join(SOURCES)}
        with log.open("w") as file:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=file, stderr=file, start_new_session=True
            )

    def until(self, true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < deadline and self.process.poll() is None, self.log.read_text()[-2000:]
            time.sleep(0.02)

    def ready(self) -> bool:
        """It answers, and has said that it runs: until then a signal ends it as one that starts."""
        try:
            return "Draftscope is at" in self.log.read_text() and self.client.get("/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def runs(self) -> int:
        """How many go on; -1 where it did not answer in time."""
        try:
            return int(self.client.get("/readyz").json()["runs"])
        except httpx.HTTPError:
            return -1

    def children(self) -> list[str]:
        """Command lines of its processes, but not of Python's own resource tracker."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        lines = [Path(f"/proc/{pid}/cmdline").read_text() for pid in path.read_text().split()]
        return [line for line in lines if "spawn_main" in line]

    def has_torch(self) -> bool:
        """Linux only; False elsewhere."""
        maps = Path(f"/proc/{self.process.pid}/maps")
        return maps.exists() and "libtorch" in maps.read_text()

    def ended(self, number: int, everybody: bool = False) -> float:
        """Seconds from a signal to the end."""
        began = time.monotonic()
        (os.killpg if everybody else os.kill)(self.process.pid, number)
        self.process.wait(60)
        return time.monotonic() - began


@contextmanager
def server(command: list[str], port: int, log: Path) -> Iterator[Server]:
    one = Server(command, port, log)
    try:
        yield one
    finally:
        one.client.close()
        if one.process.poll() is None:
            os.killpg(one.process.pid, signal.SIGKILL)
            one.process.wait(20)


@pytest.mark.parametrize(("number", "max_s"), [(signal.SIGTERM, 10.0), (signal.SIGINT, 7.0)])
def test_a_server_with_a_run_and_an_open_page_ends_in_time(tmp_path: Path, number: int, max_s: float) -> None:
    """With a grace of 10 s it took 19, more than the 10 that `docker stop` waits; after Ctrl-C it took 8."""
    port, script, answers = free_port(), tmp_path / "serve.py", []
    script.write_text(SERVER.format(sources=SOURCES, port=port))

    def page() -> None:
        try:
            with httpx.stream("GET", f"{one.url}/gradio_api/heartbeat/page", timeout=60) as beat:
                for line in beat.iter_lines():
                    answers.append(line)
        except httpx.HTTPError:
            answers.append("cut off")

    def call() -> None:
        try:
            asked = httpx.post(f"{one.url}/gradio_api/call/decode", json={"data": ["abc"]}, timeout=30)
            url = f"{one.url}/gradio_api/call/decode/{asked.json()['event_id']}"
            answers.append(httpx.get(url, timeout=60).text)
        except httpx.HTTPError:
            answers.append("cut off")

    with server([sys.executable, str(script)], port, tmp_path / "log") as one:
        one.until(one.ready)
        threads = [threading.Thread(target=each, daemon=True) for each in (page, call)]
        for thread in threads:
            thread.start()
        one.until(lambda: one.runs() == 1)
        assert not one.has_torch(), "the engine process loads it; with it the page is there 4 s later"
        took = one.ended(number, everybody=number == signal.SIGINT)
    assert took < max_s
    assert one.process.returncode == 0
    assert "Traceback" not in one.log.read_text()


@pytest.mark.parametrize("later_s", [0.0, 0.1, 0.6])
def test_ctrl_c_while_it_starts_ends_it_at_once(tmp_path: Path, later_s: float) -> None:
    """The engine process was interrupted while it read what it was started with; pydantic, which was being imported,
    reported an error of its own; and once the interrupt was lost, and the server stayed."""
    port = free_port()
    command = [*SERVE, "--port", str(port)]
    with server(command, port, tmp_path / "log") as one:
        one.until(lambda: bool(one.children()))
        time.sleep(later_s)
        one.ended(signal.SIGINT, everybody=True)
    assert one.process.returncode == 130
    assert one.log.read_text() == "draftscope: interrupted.\n"


def with_(broken: str, port: int) -> str:
    """The server, with a part that is broken."""
    begins = "    from tests.support"
    return SERVER.format(sources=SOURCES, port=port).replace(begins, broken.strip("\n") + "\n" + begins, 1)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_starting_server_ends_whatever_a_library_catches(tmp_path: Path, number: int, code: int) -> None:
    port, script = free_port(), tmp_path / "serve.py"
    script.write_text(with_(SWALLOWS, port))
    with server([sys.executable, str(script)], port, tmp_path / "log") as one:
        one.until(lambda: bool(one.children()))
        one.ended(number)
    assert one.process.returncode == code


def test_a_running_server_ends_whatever_hangs_at_its_end(tmp_path: Path) -> None:
    port, script = free_port(), tmp_path / "serve.py"
    script.write_text(with_(HANGS, port))
    with server([sys.executable, str(script)], port, tmp_path / "log") as one:
        one.until(one.ready)
        one.ended(signal.SIGINT)
    assert one.process.returncode == 0


def test_sigterm_while_it_starts_ends_it_at_once(tmp_path: Path) -> None:
    port = free_port()
    command = [*SERVE, "--port", str(port)]
    with server(command, port, tmp_path / "log") as one:
        one.until(lambda: bool(one.children()))
        one.ended(signal.SIGTERM)
    assert one.process.returncode == 0
    assert one.log.read_text() == ""
