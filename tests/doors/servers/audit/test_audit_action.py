"""The steps of the action in a shell, and the fixture for pytest, against a server whose temperature is uninitialised
memory (wrong), and the same one mended."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.doors.servers.museum.museum_server import serving
from tests.support.framed import free_port

ROOT = Path(__file__).resolve().parents[4]
ACTION = yaml.safe_load((ROOT / "app/action/action.yml").read_text())
ENVIRONMENT = {"PYTHONPATH": f"{ROOT}:{ROOT}/engine:{ROOT}/app", "OMP_NUM_THREADS": "1"}


def listens(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def command(port: int) -> str:
    return f"cd {ROOT} && exec {sys.executable} -m tests.doors.servers.museum.museum_server {port} wrong"


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
def test_the_action_convicts_the_wrong_server_and_acquits_the_mended_one(tmp_path: Path) -> None:
    """It starts the first one, and stops it; the second runs already."""
    port, asked = free_port(), {"target": "draft", "tokens": "480", "arguments": "--length 8"}
    wrong = run_action(tmp_path / "wrong", command=command(port), url=f"http://127.0.0.1:{port}", **asked)
    while listens(port):  # until the server that was stopped has ended
        time.sleep(0.1)
    with serving("mended") as url:
        mended = run_action(tmp_path / "mended", url=url, **asked)
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
def test_the_fixture_fails_a_test_of_a_wrong_server(tmp_path: Path) -> None:
    with serving("wrong") as wrong, serving("mended") as mended:
        tests = [
            f"def test_{name}(draftscope_audit):\n    draftscope_audit('{url}', target='draft', tokens=480)\n"
            for name, url in (("wrong", wrong), ("mended", mended), ("nobody", "http://127.0.0.1:9"))
        ]
        (tmp_path / "test_law.py").write_text("\n".join(tests))
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "test_law.py"],
            cwd=tmp_path, env=os.environ | ENVIRONMENT, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
    assert "2 failed, 1 passed" in ran.stdout, ran.stdout + ran.stderr
    assert "Differs from its target" in ran.stdout and "ServerError" in ran.stdout
