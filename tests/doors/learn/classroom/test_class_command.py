"""`draftscope class`: what it prints."""

from __future__ import annotations

import socket
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from rich.text import Text

from draftscope_app.cli.extra import PACKAGES
from draftscope_app.engine.jobs import EngineStatus
from draftscope_app.engine.notice import Notice
from draftscope_app.serve import server
from tests.support.command import Cli, command_line, refused


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return command_line(capsys)


@pytest.mark.parametrize("package", PACKAGES)
def test_without_its_packages_it_says_what_to_install(cli: Cli, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Before it is said that another program has the port."""
    monkeypatch.setitem(sys.modules, package, None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = refused(cli("class", "--port", str(taken.getsockname()[1])))
    assert said.endswith(f"needs {package}; install it with: pip install 'draftscope[app]'.")


def test_its_help_says_what_it_opens_on(cli: Cli) -> None:
    words = Text.from_ansi(cli("class", "--help").out).plain.replace("\u2502", " ").split()
    assert "default: smollm2, else embedded" in " ".join(words)


def test_a_class_prints_where_its_projector_is(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no browser opens it, nobody knew."""
    url = "http://127.0.0.1:7860"

    async def launched(*_: Any) -> None: ...

    monkeypatch.setenv("GRADIO_TEMP_DIR", "nowhere")
    monkeypatch.setattr(server, "_launch", launched)
    monkeypatch.setattr(server, "refuse_taken", lambda *_: None)
    ready = SimpleNamespace(status=EngineStatus("ready", "here"), changed=Notice(), own_process=True)
    monkeypatch.setattr(server.select, "engine", lambda *_: ready)
    monkeypatch.setattr(server, "Served", lambda *_: SimpleNamespace(url=url, wait=lambda _: None))
    assert f"projector is at {url}/class" in cli("class", "--no-browser").out
    assert "/class" not in cli("serve", "--no-browser").out
