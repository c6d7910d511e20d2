"""One engine process for all tests that ask it for runs; who loads other models or kills it has another."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope.trace import files
from draftscope_app.engine import select
from draftscope_app.engine.config import Environment
from draftscope_app.engine.process import EngineProcess
from draftscope_app.serve.server import Served, serve
from tests.support.framed import free_port
from tests.support.runs import wait_loaded
from tests.support.stand_ins import does_nothing


@pytest.fixture(scope="session")
def engine(engine_process: EngineProcess) -> EngineProcess:
    return engine_process


@pytest.fixture
def recorded(pair: DecodingEngine, tmp_path: Path) -> Path:
    """A trace of a sampled run."""
    file = tmp_path / "run.jsonl"
    files.write(file, pair.decode("hello", temperature=1, seed=3, max_new_tokens=24).events)
    return file


@contextmanager
def idle_server(folder: Path) -> Iterator[Served]:
    """A whole server over a stand-in for the engine process; uploads lie in the `folder`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GRADIO_TEMP_DIR", raising=False)
        patch.setattr(tempfile, "tempdir", str(folder))
        patch.setattr(select, "engine", lambda load, *_: EngineProcess(load, does_nothing))
        one = serve("127.0.0.1", free_port(), block=False, environment=Environment.read({"DRAFTSCOPE_LOG": "off"}))
        engine: Any = one.admission.engine
        assert wait_loaded(engine).phase == "ready"
        yield one
        one.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with idle_server(tmp_path) as one:
        yield one
