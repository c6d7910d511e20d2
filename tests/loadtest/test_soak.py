"""The soak in short: a few clients for some seconds. `python -m tests.loadtest.soak` is the long one."""

from __future__ import annotations

import pytest

from tests.loadtest import soak


@pytest.mark.slow
def test_a_short_soak_holds(capsys: pytest.CaptureFixture[str]) -> None:
    code = soak.main(["--clients", "3", "--runs", "12", "--minutes", "0.3"])
    printed = capsys.readouterr().out
    assert code == 0 and "every expectation held" in printed, printed
