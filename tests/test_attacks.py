"""Some attacks in short. `make attack` does all of them at length."""

from __future__ import annotations

import pytest

from tests.programs.attacks import __main__ as attacks

SHORT = {"server.MAX_UPLOAD_MB": 8, "bodies.LISTS": 3, "bodies.FLAT": 8, "soak.CLIENTS": 3, "__main__.QUIET_S": 0.0}


@pytest.mark.slow
def test_a_server_withstands_bodies_uploads_requests_and_a_short_soak(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the figures: those depend on the machine. Bodies and files are smaller, and still over every limit."""
    for name, value in SHORT.items():
        monkeypatch.setattr(f"tests.programs.attacks.{name}", value)
    code = attacks.main(["--only", "bodies,uploads,halves,few-inputs,origins,soak", "--minutes", "0.1"])
    assert code == 0, capsys.readouterr().out
