"""Stub servers as lanes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from draftscope.servers.programs.program_list import identify
from draftscope.servers.server_race import RaceLane
from draftscope.servers.wire import WireLimits
from tests.doors.servers.stubs import Habits, Starts, stub


@pytest.fixture
def starts() -> Iterator[Starts]:
    """Starts a stub and gives its lane."""
    with ExitStack() as opened:

        def start(name: str, habits: Habits) -> RaceLane:
            url = opened.enter_context(stub(habits))
            return RaceLane(name, opened.enter_context(identify(url, limits=WireLimits(connect=2, silent=1))))

        yield start
