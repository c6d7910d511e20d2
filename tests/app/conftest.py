"""One engine process for all tests that ask it for runs; who loads other models or kills it has another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from draftscope.base.load_settings import LoadSettings
from draftscope_app.engine.process import EngineProcess
from tests.support.runs import PATIENCE_S


@pytest.fixture(scope="session")
def engine(pair_folders: tuple[Path, Path]) -> Iterator[EngineProcess]:
    process = EngineProcess(LoadSettings(str(pair_folders[0]), str(pair_folders[1]), dtype="float32", threads=1))
    status = process.wait_ready(PATIENCE_S)
    assert status.phase == "ready", status
    yield process
    process.close()
