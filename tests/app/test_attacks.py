"""Some attacks in short. `make attack` does all of them at length."""

from __future__ import annotations

import pytest

from tests.programs.attacks import __main__ as attacks


@pytest.mark.slow
def test_a_server_withstands_bodies_uploads_requests_and_a_short_soak(capsys: pytest.CaptureFixture[str]) -> None:
    """All but the figures: those depend on the machine."""
    code = attacks.main(["--only", "bodies,uploads,few-inputs,origins,soak", "--minutes", "0.2"])
    printed = capsys.readouterr().out
    assert code == 0, printed
