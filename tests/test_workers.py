"""Tests of one server run in one worker: each worker that has one of them starts a server and an engine of its own."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.workers import TOGETHER, _among

BROWSER = Path(__file__).parent / "browser"
OWN_SERVER = "def address("


def test_every_file_with_visits_to_the_shared_page_is_in_its_group() -> None:
    for path in BROWSER.glob("test_*.py"):
        text = path.read_text(encoding="utf-8")
        shared = re.search(r"\b(visit|address): ", text) is not None and OWN_SERVER not in text
        assert shared <= _among(f"tests/browser/{path.name}", TOGETHER["tests/browser, one server"]), path.name
