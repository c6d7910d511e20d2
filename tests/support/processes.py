"""One engine process for all tests that ask it for jobs; who loads other models or kills it has another.

`tests/conftest.py` makes it known.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from draftscope.base.load_settings import LoadSettings
from draftscope_app.engine.process import EngineProcess
from tests.support.runs import wait_loaded


@pytest.fixture(scope="session")
def engine_process(pair_folders: tuple[Path, Path]) -> Iterator[EngineProcess]:
    process = EngineProcess(LoadSettings(str(pair_folders[0]), str(pair_folders[1]), dtype="float32", threads=1))
    status = wait_loaded(process)
    assert status.phase == "ready", status
    yield process
    process.close()
