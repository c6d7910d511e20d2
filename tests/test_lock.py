"""The lock is a lock: whole, with hashes, from the public index, and of the versions that `make` installs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tests.generated_tables import ROOT
from tests.programs import lock

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((*(ROOT / ".github/workflows").glob("*.yml"), ROOT / "app/action/action.yml"))
HOSTS = {"pypi.org", "files.pythonhosted.org"}


@pytest.fixture(scope="module")
def packages() -> dict[str, dict[str, Any]]:
    found = tomllib.loads(lock.LOCK.read_text(encoding="utf-8"))
    assert found["lock-version"] == "1.0" and found["requires-python"] == PROJECT["project"]["requires-python"]
    by_name = {package["name"]: package for package in found["packages"]}
    assert len(by_name) == len(found["packages"])  # one version of each
    return by_name


def test_the_lock_has_the_tested_versions(packages: dict[str, dict[str, Any]]) -> None:
    tested = {canonicalize_name(name): version for name, version in (line.split("==") for line in lock.tested())}
    assert {name: packages[name]["version"] for name in tested} == tested
    # what another system or Python needs was not installed here, but for setuptools, which a CUDA build of torch wants
    others = [package for name, package in packages.items() if name not in tested and name != "setuptools"]
    assert all(str(Marker(package["marker"])) for package in others)


def test_every_dependency_is_locked_within_its_bounds(packages: dict[str, dict[str, Any]]) -> None:
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    texts = (*project["dependencies"], *extras["app"], *extras["export"], *PROJECT["dependency-groups"]["dev"])
    for need in map(Requirement, texts):
        assert packages[canonicalize_name(need.name)]["version"] in need.specifier, need.name


def test_every_file_has_a_hash_and_a_public_address(packages: dict[str, dict[str, Any]]) -> None:
    files = [
        file for package in packages.values() for file in (*package["wheels"], *filter(None, [package.get("sdist")]))
    ]
    assert all(re.fullmatch("[0-9a-f]{64}", file["hashes"]["sha256"]) for file in files)
    addresses = {
        urlsplit(found).hostname for found in re.findall(r"https?://[^\"]+", lock.LOCK.read_text(encoding="utf-8"))
    }
    assert addresses == HOSTS
    assert "file:" not in lock.LOCK.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_pinned_actions(path: Path) -> None:
    uses = re.findall(r"uses: (\S+)(.*)", path.read_text(encoding="utf-8"))
    assert uses and all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action) for action, _ in uses)
    assert all(re.fullmatch(r" # v\d+\.\d+\.\d+", version) for _, version in uses)


def test_the_wheel_is_tried_in_every_python_that_is_named() -> None:
    tried = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["wheel"]["strategy"]["matrix"][
        "python"
    ]
    named = [found[1] for text in PROJECT["project"]["classifiers"] if (found := re.search(r":: (3\.\d+)$", text))]
    (default,) = re.findall(r"^PYTHONS \?= (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert tried == named == default.split()
    assert all(version in SpecifierSet(PROJECT["project"]["requires-python"]) for version in named)


def test_only_the_job_that_publishes_may_ask_for_the_name_to_publish_under() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/publish.yml").read_text())["jobs"]
    assert {name for name, job in jobs.items() if "environment" in job} == {"publish"}
    assert jobs["publish"]["environment"]["name"] == "pypi" and jobs["publish"]["permissions"] == {"id-token": "write"}
    assert "id-token" not in jobs["build"]["permissions"]
    assert "secrets." not in (ROOT / ".github/workflows/publish.yml").read_text()
