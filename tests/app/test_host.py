"""What the instrument asks the server: the shown run again, files; anybody may send anything."""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.trace import files
from draftscope_app.engine.admission import UNREADABLE
from draftscope_app.engine.visitors import Visitors
from draftscope_app.page import host, page
from draftscope_app.page.controls import defaults
from draftscope_app.page.shared import Shared


@pytest.fixture
def shared(pair: DecodingEngine) -> Shared:
    """Visitor 'mine' sees a run of their own, everybody else the recorded one."""
    visitors = Visitors()
    mine = visitors.of("mine").shown
    mine.run = "r7"
    mine.add(
        files.line(event)
        for event in pair.start("abc", Settings.of(drafter="plain", max_new_tokens=8), run="r7", lane="plain").events()
    )
    admission: Any = SimpleNamespace()
    return Shared(admission, visitors, defaults(), page.first_run())


def call(shared: Shared, name: str, sent: Any, session: Any = "mine") -> Any:
    """The answer of a server function, called as Gradio does: the session is in the body only."""

    class Request:
        async def json(self) -> Any:
            return {"data": sent} | ({} if session is None else {"session_hash": session})

    function = next(one for one in host.functions(shared) if one.__name__ == name)
    return asyncio.run(function(sent, Request()))


def test_the_shown_run_is_saved_and_nothing_of_it_stays_on_disk(
    shared: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    for session, run in (("mine", "r7"), ("other", shared.first[0].run), (None, shared.first[0].run)):
        file = call(shared, "save", {"kind": "trace", "lesson": ""}, session)
        (tmp_path / file["name"]).write_bytes(base64.b64decode(file["data"]))
        assert {event.run for event in files.read(tmp_path / file["name"]).events} == {run}
    assert not list(temporary.iterdir())
    alone = call(shared, "save", {"kind": "page", "lesson": ""})
    assert alone["name"].endswith(".html") and b"draftscope-instrument" in base64.b64decode(alone["data"])


def test_a_new_tab_is_told_by_its_token_and_by_none_that_can_be_guessed(shared: Shared) -> None:
    token = "0123456789abcdef" * 2
    assert call(shared, "claim", token, "new") == ""
    assert shared.visitors.claim("reloaded", token) is shared.visitors.of("reloaded")
    assert shared.visitors.of("reloaded").token == token
    for sent in (None, 5, "", "1"):
        assert json.loads(call(shared, "claim", sent, "new"))["note"] == UNREADABLE


def test_the_whole_run_is_its_visitors_only(shared: Shared) -> None:
    assert json.loads(call(shared, "again", None))["ev"][0]["run"] == "r7"
    assert call(shared, "again", None, "other") == call(shared, "again", None, None) == ""


@pytest.mark.parametrize(
    "sent",
    [None, 5, "trace", [], {}, {"kind": "trace"}, {"kind": "x", "lesson": ""}, {"kind": "trace", "lesson": 5},
     {"kind": "trace", "lesson": "../first"}, {"kind": "trace", "lesson": "", "path": "/etc/passwd"}],
)  # fmt: skip
def test_what_cannot_be_read_is_one_sentence(shared: Shared, sent: Any) -> None:
    answer = call(shared, "save", sent)
    assert answer["note"].endswith("reload the page.") or answer["note"] == UNREADABLE
    assert "data" not in answer
