from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.browsers import chromium


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    yield from chromium()
