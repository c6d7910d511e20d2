"""`draftscope class`: what it prints."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from draftscope_app.engine.jobs import EngineStatus
from draftscope_app.engine.notice import Notice
from draftscope_app.serve import server
from tests.support.command import Cli, command_line


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return command_line(capsys)


def test_a_class_prints_where_its_projector_is(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no browser opens it, nobody knew."""
    url = "http://127.0.0.1:7860"

    async def launched(*_: Any) -> None: ...

    monkeypatch.setenv("GRADIO_TEMP_DIR", "nowhere")
    monkeypatch.setattr(server, "_launch", launched)
    monkeypatch.setattr(server, "refuse_taken", lambda *_: None)
    ready = SimpleNamespace(status=EngineStatus("ready", "here"), changed=Notice())
    monkeypatch.setattr(server.select, "engine", lambda *_: ready)
    monkeypatch.setattr(server, "Served", lambda *_: SimpleNamespace(url=url, wait=lambda _: None))
    assert f"projector is at {url}/class" in cli("class", "--no-browser").out
    assert "/class" not in cli("serve", "--no-browser").out
