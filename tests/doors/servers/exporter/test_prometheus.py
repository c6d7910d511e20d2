"""The page and the board in Prometheus itself, where it is installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import uvicorn

from draftscope.log import RoundLog
from draftscope_app.doors.servers.exporter import web
from draftscope_app.doors.servers.exporter.board import board
from draftscope_app.doors.servers.exporter.count_sources import LogSource
from draftscope_app.doors.servers.exporter.prometheus_text import page
from tests.support.framed import free_port

pytestmark = pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed")
UNTIL_S = 60
Ask = Callable[[str], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RoundLog]:
    with RoundLog(tmp_path_factory.mktemp("log") / "rounds.jsonl", engine="mine") as written:
        written.round(drafted=3, accepted=2, ms=20.0)
        yield written


@pytest.fixture(scope="module")
def asked(log: RoundLog, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """What Prometheus answers, which reads the page of a log every second."""
    folder, exporter_port, port = tmp_path_factory.mktemp("prometheus"), free_port(), free_port()
    application = web.application(LogSource(Path(log._file.name)), 10.0)
    server = uvicorn.Server(uvicorn.Config(application, port=exporter_port, log_level="critical"))
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    target = {"job_name": "draftscope", "static_configs": [{"targets": [f"127.0.0.1:{exporter_port}"]}]}
    settings = {"global": {"scrape_interval": "1s"}, "scrape_configs": [target]}
    (folder / "prometheus.yml").write_text(json.dumps(settings))
    flags = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{port}"]
    with (folder / "out").open("w") as out:
        prometheus = subprocess.Popen(["prometheus", *flags], cwd=folder, stdout=out, stderr=out)
    try:
        yield lambda expression: _ask(port, expression)
    finally:
        prometheus.terminate()
        prometheus.wait(UNTIL_S)
        server.should_exit = True
        thread.join(UNTIL_S)


def _ask(port: int, expression: str) -> list[dict[str, Any]]:
    query = urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{query}", timeout=10) as answer:
        return list(json.load(answer)["data"]["result"])


def until(ask: Ask, expression: str) -> list[dict[str, Any]]:
    """Its answer, as soon as there is one."""
    deadline = time.monotonic() + UNTIL_S
    while time.monotonic() < deadline:
        try:
            if found := ask(expression):
                return found
        except OSError:  # it is starting
            pass
        time.sleep(0.2)
    pytest.fail(f"no answer to {expression}")


def test_its_own_checker_finds_nothing_wrong(log: RoundLog) -> None:
    text = page(LogSource(Path(log._file.name)).read(), 10.0)
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr.decode()


def test_every_expression_of_the_board_has_an_answer(asked: Ask, log: RoundLog) -> None:
    until(asked, "draftscope_rounds_total")
    for _ in range(80):  # what is the same at two readings has a rate of 0, and its quotient none
        log.round(drafted=3, accepted=0, ms=20.0)
    until(asked, "rate(draftscope_rounds_total[1m]) > 0")
    expressions = [query["expr"] for panel in board()["panels"] for query in panel["targets"]]
    assert len(expressions) == 11
    for expression in expressions:
        filled = expression.replace("$job", ".*").replace("$instance", ".*").replace("$__rate_interval", "1m")
        found = until(asked, filled)
        assert all(sample["value"][1] != "NaN" for sample in found), filled
    alarm = until(asked, "draftscope_alarm == 1")
    assert [sample["metric"]["what"] for sample in alarm] == ["near nothing is kept"]
