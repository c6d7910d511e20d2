"""The wheel is small, has what the page and the embedded pair need, and runs where no checkout is."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.metadata import Metadata

from draftscope.base.errors import DraftscopeError
from draftscope.models.loading import embedded
from tests.support.compiled import lend_programs

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 40e6  # bytes
RUNS = """import json, sys
from draftscope_app.cli.main import main
print(*[int(main(words)) for words in json.loads(sys.argv[1])])"""


@pytest.mark.slow
def test_a_wheel_is_small_and_runs_in_a_bare_environment(tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", tmp_path, ROOT], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.stat().st_size < LIMIT
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith("dist-info/METADATA"))
        about = archive.read(metadata).decode()
        (entries,) = (name for name in names if name.endswith("entry_points.txt"))
        assert "[pytest11]" in archive.read(entries).decode()
    assert {name.split("/")[3] for name in names if name.startswith("draftscope/assets/models/")} == {
        "llama-draftscope-15m", "llama-draftscope-draft-1m", "llama-smollm2-135m-eagle3",
    }  # fmt: skip
    assert {"draftscope/assets/page.css", "draftscope/assets/traces/first.jsonl.gz"} <= names
    assert any(name.endswith("dist-info/licenses/LICENSE") for name in names)
    told = Metadata.from_email(about)  # raises for a field that an index refuses
    assert told.license_expression == "Apache-2.0" and told.description_content_type == "text/markdown"
    assert told.classifiers and told.project_urls and "Changelog" in told.project_urls
    always = {need.name for need in told.requires_dist or [] if not need.marker}
    assert {"rich", "typer"} <= always  # what the console script imports before it knows its command
    shown = told.description or ""
    assert "## How to cite, versions, licence" in shown and f"Version {told.version} (" in shown
    place = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    (site,) = place.glob("lib/python*/site-packages")
    # what runs compiles what it imports, half of what there is
    subprocess.run([*pip, "--python", place / "bin/python", "install", "--no-deps", "--no-compile", wheel], check=True)
    lend_programs(site / "draftscope")
    # what it depends on; an editable install beside it is not seen
    (site / "needed.pth").write_text(sysconfig.get_path("purelib"))
    environment = {"PATH": os.environ["PATH"], "DRAFTSCOPE_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}

    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)

    assert run(place / "bin/draftscope", "--version").stdout.strip() == str(told.version)
    decodes = ["decode", "Once upon a time", "--temperature", "0", "--max-new-tokens", "12", "--threads", "1"]
    ran = run(place / "bin/python", "-c", RUNS, json.dumps([decodes, [*decodes, "--draft", "draft-tiny"]]))
    assert ran.stdout.endswith("\n0 2\n") and len(ran.stdout) > 20, ran.stderr
    assert "'draft-tiny' is not installed: a wheel has only" in ran.stderr
    unpacked = {path.name.rpartition("-")[0] for path in (tmp_path / "cache/draftscope/embedded").iterdir()}
    assert {"llama-draftscope-15m", "llama-draftscope-draft-1m"} <= unpacked


def test_an_editable_install_packs_no_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads them from the checkout, and a first `make run` does not wait until they are packed."""
    interface = "hatchling.builders.hooks.plugin.interface"  # hatchling is in the environment of a build only
    monkeypatch.setitem(sys.modules, interface, SimpleNamespace(BuildHookInterface=SimpleNamespace))
    hook = runpy.run_path(str(ROOT / "engine/wheel_hook.py"))["PackedModels"](root=str(tmp_path))
    data: dict[str, Any] = {"force_include": {}}
    hook.initialize("editable", data)
    assert data == {"force_include": {}} and not any(tmp_path.iterdir())


def test_an_embedded_model_that_is_not_installed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTSCOPE_ASSETS", str(tmp_path))
    with pytest.raises(DraftscopeError, match="'experts' is not installed: a wheel has only"):
        embedded.resolved("experts")
