"""Files and servers that commands of a terminal read, and pages that they write."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch

from draftscope.advise.planned import TypedValues, planned
from draftscope.advise.question import Question
from draftscope.advise.round_costs import CalibratedCosts
from draftscope.base.prompts import Prompt
from draftscope.decode.engine import DecodingEngine
from draftscope.measure.bench.bench_plan import BenchPlan
from draftscope.measure.bench.benchmark import benchmark
from draftscope.models.probe import probed
from draftscope_app.doors.decide.advise import report as advice_page
from draftscope_app.reports import bench_page
from tests.programs.attacks.outcome import Outcome
from tests.programs.attacks.server import ROOT, Server
from tests.support.browsers import CHROMIUM, FLAGS
from tests.support.models import byte_tokenizer, made_calibration, random_llama
from tests.support.visit import EVIL

COMMAND_S, LISTENED_S = 120.0, 15.0
SENTENCES = re.compile(rb"draftscope\.[\w.]*(ServerError|DraftscopeError): ")
MODES = ("junk", "html", "escapes", "endless", "drip")
AUDITS = """
import pytest
def test_law(draftscope_audit):
    draftscope_audit({url!r}, target="draft", minutes=0.05)
"""


def exports(_: Server) -> Outcome:
    """Reports whose names, prompts and notes are markup, as pages in a browser."""
    reports = {bench_page.page: _measured(), advice_page.page: _advised()}
    run = _scripts_run([page(_poisoned(report)) for page, report in reports.items()])
    found = "none ran" if run == 0 else f"{run} ran" if run > 0 else "not tried: no Chromium here"
    return Outcome("a benchmark and an advice full of markup, as pages", run == 0, found)


def _measured() -> Any:
    plan = BenchPlan(drafters=("ngram",), batches=(1,), contexts=(8,), tokens=8, repeats=1)
    texts = {EVIL: [Prompt(EVIL, "Once upon a time")]}
    engine = DecodingEngine(probed(random_llama(3, 258), EVIL), None, byte_tokenizer())
    engine.calibration = made_calibration()
    return json.loads(benchmark(engine, plan, texts, [EVIL]).as_json())


def _advised() -> Any:
    return json.loads(planned(Question(), TypedValues((0.7,)), CalibratedCosts(made_calibration(), 100)).as_json())


def _poisoned(value: Any, key: str = "") -> Any:
    """The report with markup behind every text that is somebody's words."""
    if isinstance(value, dict):
        return {name: _poisoned(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [_poisoned(one, key) for one in value]
    words = ("name", "notes", "method", "text", "prompt", "kind", "tokens_vs_plain", "cpu", "target", "draft")
    return f"{value}{EVIL}</script>" if isinstance(value, str) and key in words else value


def _scripts_run(pages: list[str]) -> int:
    """On how many pages a script of the markup ran; -1 without a browser."""
    if CHROMIUM is None:
        return -1
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        run = 0
        for number, html in enumerate(pages):
            path = Path(folder) / f"{number}.html"
            path.write_text(html, encoding="utf-8")
            page = browser.new_page()
            page.goto(path.as_uri())
            run += page.evaluate("window.pwned") is not None
        browser.close()
    return run


class _Command:
    """`os.system`, as a pickle calls it."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        import os

        return os.system, (f"touch {self.mark}",)


def state(_: Server) -> Outcome:
    """A training run's state that is a program, in place of the one that was saved."""
    from draftscope.base.errors import DraftscopeError
    from draftscope.train.fit.fit import read_state

    said = []
    with tempfile.TemporaryDirectory(prefix="draftscope-attack-") as folder:
        path, mark = Path(folder) / "state.pt", Path(folder) / "mark"
        for content in ({"model": _Command(mark)}, _Command(mark), [1, 2], {"fingerprint": 1}):
            torch.save(content, path)
            try:
                read_state(path)
            except DraftscopeError as error:
                said.append(str(error))
        run = mark.exists()
    found = f"{len(said)} sentences; {'a command ran' if run else 'no command ran'}"
    return Outcome("4 tampered states of train-drafter", len(said) == 4 and not run, found)


def museum(_: Server) -> Outcome:
    """Its servers are in its own process: it must listen nowhere."""
    process = subprocess.Popen(
        [sys.executable, "-m", "draftscope_app.cli.main", "museum", "--json"],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until, listens = time.monotonic() + LISTENED_S, 0
        while time.monotonic() < until and process.poll() is None:
            listens = max(listens, _listening(process.pid))
            time.sleep(0.2)
    finally:
        process.kill()
        process.wait()
    return Outcome(f"draftscope museum for {LISTENED_S:.0f} s", not listens, f"it listens on {listens} ports")


def _listening(pid: int) -> int:
    """Sockets of a process that wait for connections."""
    try:
        links = [path.readlink() for path in Path(f"/proc/{pid}/fd").iterdir()]
        own = {str(link)[8:-1] for link in links if str(link).startswith("socket:[")}
        tables = [Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    except OSError:
        return 0
    rows = [row.split() for table in tables for row in table]
    return sum(row[3] == "0A" and row[9] in own for row in rows)


def plugin(_: Server) -> Outcome:
    """The fixture of pytest with a hostile server behind it: the test ends, in a sentence without escape sequences."""
    wrong = []
    for mode in MODES:
        with _Hostile(mode) as url, tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "test_law.py").write_text(AUDITS.format(url=url), encoding="utf-8")
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", folder]
            try:
                done = subprocess.run(command, cwd=folder, capture_output=True, timeout=COMMAND_S, check=False)
            except subprocess.TimeoutExpired:
                wrong.append(f"{mode}: no end")
                continue
            if done.returncode not in (1, 2) or b"\x1b" in done.stdout or not SENTENCES.search(done.stdout):
                wrong.append(f"{mode}: {done.stdout[-80:]!r}")
    return Outcome(
        f"pytest's fixture on {len(MODES)} hostile servers", not wrong, "; ".join(wrong) or "a sentence each"
    )


class _Hostile:
    """A server on a free port of the loopback that answers everything in one way of `MODES`."""

    def __init__(self, mode: str) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                _answer(self, mode)

            def do_POST(self) -> None:
                _answer(self, mode)

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _answer(request: BaseHTTPRequestHandler, mode: str) -> None:
    try:
        if mode == "junk":
            request.wfile.write(b"\x00\xff" * 1000)
        elif mode == "drip":
            until = time.monotonic() + COMMAND_S
            while time.monotonic() < until:
                request.wfile.write(b"H")
                time.sleep(0.5)
        else:
            request.send_response(200)
            request.send_header("Content-Type", "application/json")
            request.end_headers()
            name = "\x1b[2J\x1b]0;x\x07<script>" if mode == "escapes" else "x"
            models = json.dumps(
                {"object": "list", "data": [{"id": name, "owned_by": "vllm"}], "version": name}
            ).encode()
            request.wfile.write(b"<html>" if mode == "html" else models)
            while mode == "endless":
                request.wfile.write(b"x" * 65536)
    except OSError:
        return
