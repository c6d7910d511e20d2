"""Some attacks in short. `make attack` does all of them at length."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.attacks import __main__ as attacks
from tests.programs.attacks import soak
from tests.programs.attacks.server import Server


@pytest.mark.slow
def test_a_server_withstands_bodies_uploads_and_requests(capsys: pytest.CaptureFixture[str]) -> None:
    """All but the figures: those depend on the machine."""
    code = attacks.main(["--only", "bodies,uploads,few-inputs,origins"])
    printed = capsys.readouterr().out
    assert code == 0, printed


@pytest.mark.slow
def test_a_short_soak_holds(tmp_path: Path) -> None:
    server = Server(tmp_path)
    try:
        server.wait_ready()
        outcome = soak.attack(server, minutes=0.3, clients=3)
    finally:
        server.end()
    assert outcome.held, outcome
