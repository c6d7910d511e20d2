"""The steps of the action in a shell, and the fixture for pytest, against a server that is hotter than it is asked
(wrong), and the same one mended."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from draftscope.decode.engine import DecodingEngine
from draftscope.models.probe import probed
from tests.doors.servers.audit.test_audit_command import served, writer
from tests.support.framed import free_port
from tests.support.models import byte_tokenizer, random_llama

ROOT = Path(__file__).resolve().parents[4]
ACTION = yaml.safe_load((ROOT / "app/action/action.yml").read_text())
ENVIRONMENT = {"PYTHONPATH": f"{ROOT}:{ROOT}/engine:{ROOT}/app", "OMP_NUM_THREADS": "1"}


def listens(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


# What the action starts: a process that answers as the server at another port does.
RELAY = """
import asyncio, sys
port, other = map(int, sys.argv[1:])

async def copied(reader, writer):
    while part := await reader.read(65536):
        writer.write(part)
        await writer.drain()
    writer.close()

async def relayed(asking, answering):
    read, write = await asyncio.open_connection("127.0.0.1", other)
    await asyncio.gather(copied(asking, write), copied(read, answering), return_exceptions=True)

async def main():
    await (await asyncio.start_server(relayed, "127.0.0.1", port)).serve_forever()

asyncio.run(main())
"""


def command(script: Path, port: int, url: str) -> str:
    script.write_text(RELAY)
    return f"exec {sys.executable} {script} {port} {url.rpartition(':')[2]}"


@dataclass(frozen=True)
class Model:
    """A small model, and the folder from which an audit loads it."""

    engine: DecodingEngine
    folder: Path

    @contextmanager
    def serving(self, how: str) -> Iterator[str]:
        """The address of a server of this model, until the end of the block."""
        with served(writer(self.engine, 4.0 if how == "wrong" else 1.0)) as url:
            yield url


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Its weights are bfloat16 numbers, as those of most checkpoints are. They are random, so that its best tokens are
    near ties: a plain server writes the greedy texts that an audit expects."""
    folder, network = tmp_path_factory.mktemp("model"), random_llama(3, 258).bfloat16()
    network.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return Model(DecodingEngine(probed(network.float(), "model"), None, byte_tokenizer()), folder)


def run_action(folder: Path, **given: str) -> tuple[int, dict[str, Any], str]:
    """Runs each `run` step with its inputs, as the runner does; the exit code, audit.json, and everything printed."""
    folder.mkdir()
    inputs = {name: about.get("default", "") for name, about in ACTION["inputs"].items()} | given | {"install": ""}
    (folder / "bin").mkdir()
    (folder / "bin/draftscope").write_text(f'#!/bin/sh\nexec {sys.executable} -m draftscope_app.cli.main "$@"\n')
    (folder / "bin/draftscope").chmod(0o755)
    code, printed = 0, ""
    for step in ACTION["runs"]["steps"]:
        condition, runs = step.get("if", ""), step.get("run")
        wanted = all(inputs[name] for name in re.findall(r"inputs\.(\w+) != ''", condition))
        if runs is None or not wanted or (code and "always()" not in condition):
            continue
        values = {
            name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda m: inputs[m[1]], v)
            for name, v in step.get("env", {}).items()
        }
        more = (
            ENVIRONMENT | values | {"GITHUB_STEP_SUMMARY": "summary.md", "PATH": f"{folder}/bin:{os.environ['PATH']}"}
        )
        ran = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", runs], cwd=folder, env=os.environ | more,
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        code, printed = code or ran.returncode, printed + ran.stdout + ran.stderr
    report = folder / "draftscope-audit/audit.json"
    return code, json.loads(report.read_text()) if report.is_file() else {}, printed


@pytest.mark.slow
def test_the_action_convicts_the_wrong_server_and_acquits_the_mended_one(model: Model, tmp_path: Path) -> None:
    """It starts the first one, and stops it; the second runs already."""
    port, asked = free_port(), {"target": str(model.folder), "tokens": "480", "arguments": "--length 8"}
    with model.serving("mended") as plain:
        with model.serving("wrong") as url:
            started = command(tmp_path / "relay.py", port, url)
            address = f"http://127.0.0.1:{port}"
            wrong = run_action(tmp_path / "wrong", command=started, url=address, plain=plain, **asked)
            while listens(port):  # until the server that was stopped has ended
                time.sleep(0.1)
        with model.serving("mended") as url:
            mended = run_action(tmp_path / "mended", url=url, plain=plain, **asked)
    for (code, report, printed), how, expected, title, files in (
        (wrong, "wrong", 1, "Different", {"server.log", "server.pid", "audit.json", "audit.xml"}),
        (mended, "mended", 0, "No difference found", {"audit.json", "audit.xml"}),
    ):
        assert code == expected, printed
        assert report["differences"] == (["sampled"] if expected else []), printed
        assert {path.name for path in (tmp_path / how / "draftscope-audit").iterdir()} == files
        assert (tmp_path / how / "summary.md").read_text().startswith(f"## Draftscope audit: {title}\n")


def test_a_server_that_ends_is_not_waited_for(tmp_path: Path) -> None:
    code, report, printed = run_action(
        tmp_path / "dead", command="echo out of memory; exit 1", url=f"http://127.0.0.1:{free_port()}", target="draft"
    )
    assert (code, report) == (2, {}) and "The server ended before" in printed and "out of memory" in printed


@pytest.mark.slow
def test_the_fixture_fails_a_test_of_a_wrong_server(model: Model, tmp_path: Path) -> None:
    with model.serving("mended") as plain, model.serving("wrong") as wrong, model.serving("mended") as mended:
        given, beside = f"target='{model.folder}', tokens=480", f", plain='{plain}'"
        tests = [
            f"def test_{name}(draftscope_audit):\n    draftscope_audit('{url}', {given}{more})\n"
            for name, url, more in (
                ("wrong", wrong, beside), ("mended", mended, beside), ("nobody", "http://127.0.0.1:9", ""),
            )
        ]  # fmt: skip
        (tmp_path / "test_law.py").write_text("\n".join(tests))
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "test_law.py"],
            cwd=tmp_path, env=os.environ | ENVIRONMENT, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
    assert "2 failed, 1 passed" in ran.stdout, ran.stdout + ran.stderr
    assert "Differs from its target" in ran.stdout and "ServerError" in ran.stdout
