"""Hostile uploads, all at once: /healthz goes on answering. `python -m tests.loadtest.hostile` prints the figures."""

from __future__ import annotations

import pytest

from tests.loadtest import hostile


@pytest.mark.slow
def test_the_server_is_alive_while_hostile_files_are_uploaded(capsys: pytest.CaptureFixture[str]) -> None:
    code = hostile.main()
    printed = capsys.readouterr().out
    assert code == 0 and "every expectation held" in printed, printed
