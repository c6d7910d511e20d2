"""A server to attack, `app/start_server.py` on the loopback with the embedded pair, and who watches it meanwhile."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx

from tests.support.framed import free_port

ROOT = Path(__file__).resolve().parents[3]
READY_S = 300.0
MAX_UPLOAD_MB = 64
MAX_MEMORY = 16 * 2**30  # bytes that each process may map, so that an attack that succeeds takes no more of a machine


class Server:
    """`pid` is the page's process, whose child is the engine's. Visitors may load models; uploads lie in `uploads`."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.port, self.log, self.uploads = free_port(), folder / "log", folder / "uploads"
        self.url, self.max_upload = f"http://127.0.0.1:{self.port}", MAX_UPLOAD_MB * 2**20
        variables = os.environ | {
            "GRADIO_SERVER_NAME": "127.0.0.1", "GRADIO_SERVER_PORT": str(self.port), "DRAFTSCOPE_TARGET": "embedded",
            "GRADIO_TEMP_DIR": str(self.uploads), "DRAFTSCOPE_MAX_UPLOAD_MB": str(MAX_UPLOAD_MB), **environment,
        }  # fmt: skip
        self.began = time.monotonic()
        with self.log.open("w") as file:
            self.process = subprocess.Popen(
                [sys.executable, "app/start_server.py"], cwd=ROOT, env=variables, stdout=file, stderr=file,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY)),
            )  # fmt: skip

    def wait_page(self) -> float:
        """Seconds from the start until the page is there."""
        return self._wait("/", READY_S)

    def wait_ready(self, patience_s: float = READY_S) -> float:
        """Seconds from the start until a run would be decoded. Raises `TimeoutError`."""
        return self._wait("/readyz", patience_s)

    def ready(self, patience_s: float) -> bool:
        """Whether a run would be decoded, now or soon."""
        try:
            return self.wait_ready(patience_s) > 0
        except TimeoutError:
            return False

    def _wait(self, path: str, patience_s: float) -> float:
        until = time.monotonic() + patience_s
        while time.monotonic() < until and self.process.poll() is None:
            try:
                if httpx.get(self.url + path, timeout=5).status_code == 200:
                    return time.monotonic() - self.began
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
        raise TimeoutError(f"{path} was not answered: {self.log.read_text()[-2000:]}")

    def config(self) -> dict[str, Any]:
        """The page's components and listeners."""
        answer: dict[str, Any] = httpx.get(f"{self.url}/config", timeout=60).json()
        return answer

    def runs(self) -> list[dict[str, Any]]:
        """The ends of runs that it has logged."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == "run"]

    @property
    def engine(self) -> int:
        """The engine's process; 0 where there is none."""
        pids = [int(pid) for pid in _read(f"/proc/{self.process.pid}/task/{self.process.pid}/children").split()]
        return max(pids, key=_resident_mb, default=0)

    def memory_mb(self) -> tuple[float, float]:
        """Resident memory of the page's process and of the engine's."""
        return _resident_mb(self.process.pid), _resident_mb(self.engine)

    def end(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()


class Watch:
    """From its beginning to its end asks /healthz, and looks at the memory: the worst of both."""

    PAUSE_S = 0.05

    def __init__(self, server: Server) -> None:
        self.server, self.late, self.page, self.engine = server, 0.0, 0.0, 0.0
        self._over = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._ask, self._weigh)]

    def __enter__(self) -> Watch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def rest(self, seconds: float) -> None:
        """Watches on, with nothing done."""
        self._over.wait(seconds)

    def _ask(self) -> None:
        with httpx.Client(base_url=self.server.url, timeout=60) as client:
            while not self._over.wait(self.PAUSE_S):
                began = time.monotonic()
                try:
                    client.get("/healthz").raise_for_status()
                except httpx.HTTPError:
                    self.late = max(self.late, 60.0)
                self.late = max(self.late, time.monotonic() - began)

    def _weigh(self) -> None:
        while not self._over.wait(self.PAUSE_S):
            page, engine = self.server.memory_mb()
            self.page, self.engine = max(self.page, page), max(self.engine, engine)


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:  # the process has ended
        return ""


def _resident_mb(pid: int) -> float:
    lines = _read(f"/proc/{pid}/status").splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)
