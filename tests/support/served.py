"""A dashboard in a process of its own, whose shipped recording was made on the pair that it serves, once: to make it
anew takes longer than most tests of the page. `test_opening.py` holds that it is still what the page opens with."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from draftscope.base.assets import assets
from tests.support.framed import free_port

ROOT = Path(__file__).resolve().parents[2]
ITEMS = (
    "instrument",
    "lessons",
    "theme.json",
    "prompts.json",
    "chat_prompts.json",
    "page.css",
    "front.css",
    "player.css",
    "bench.css",
    "results",
)
FIRST = Path(__file__).with_name("first.jsonl.gz")
START_S, END_S = 300, 60  # on a machine that has much else to do
SERVER = """
import sys
sys.path[:0] = {sources!r}
if __name__ == "__main__":
    from draftscope.base.load_settings import LoadSettings
    from draftscope_app.serve import server
    server.refuse_unknown = lambda name: None  # which is asked of another process, that imports torch
    server.serve("127.0.0.1", {port}, LoadSettings({target!r}, {draft!r}, dtype="float32", threads=1), "draft")
else:  # the engine's process: it measures costs with few repeats, and believes them whatever else runs here
    from draftscope.base import cores, costs
    from draftscope.decode import calibration
    calibration.REPEATS, calibration.TOGETHER, calibration.COPIED["cpu"] = 1, {{1: 6, 16: 2}}, 1 << 22
    cores.OtherCores.lap = lambda self: 0.0
    costs.impossible = lambda *_: []
"""


@contextmanager
def served(folders: tuple[Path, Path], folder: Path) -> Iterator[str]:
    """The address of a page over these models (target, draft); `folder` keeps its assets, its script and its log."""
    own = folder / "assets"
    (own / "traces").mkdir(parents=True)
    for item in ITEMS:
        (own / item).symlink_to(assets() / item)
    (own / "traces" / FIRST.name).symlink_to(FIRST)
    target, draft = map(str, folders)
    port, script, log = free_port(), folder / "serve.py", folder / "log"
    sources = [str(ROOT / "engine"), str(ROOT / "app")]
    script.write_text(SERVER.format(sources=sources, port=port, target=target, draft=draft))
    environment = os.environ | {"DRAFTSCOPE_ASSETS": str(own)}
    with log.open("w") as file:
        server = subprocess.Popen([sys.executable, str(script)], env=environment, stdout=file, stderr=file)
    url = f"http://127.0.0.1:{port}/"
    try:
        wait_until_up(url, server, log)
        yield url
    finally:
        server.terminate()
        server.wait(END_S)


def wait_until_up(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.3)
    pytest.fail(f"the page did not come up: {log.read_text()[-2000:]}")
