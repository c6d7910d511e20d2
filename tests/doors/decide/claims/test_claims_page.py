"""The list of claims on the page, and the command that runs and saves them. No model is loaded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError
from draftscope.claims import saved
from draftscope.claims.claim import ClaimVerdict
from draftscope.claims.saved_results import SavedResults, in_folder
from draftscope.claims.table import CLAIMS
from draftscope_app.doors.decide import commands
from draftscope_app.doors.decide.claims.command import commands_to_run, run_commands
from draftscope_app.doors.decide.claims.page import claims

RATIO, PARTS = {"median": 1.2, "low": 1.1, "high": 1.3}, {"tau": 2.0, "gamma_c": 0.4, "v": 1.1, "o": 0.1}
EVIL = "<script>alert('x')</script>"


def test_every_claim_is_shown_with_its_command() -> None:
    shown = claims(saved.shipped())
    assert shown.count("<li ") == len(CLAIMS) == 24
    assert shown.count("<code>") == 24


def test_a_verdict_is_hidden_until_it_is_predicted_and_one_without_a_measurement_is_not() -> None:
    values = [saved.claim_values(claim, claim.judged(SavedResults())) for claim in CLAIMS[:2]]
    values[0] |= {"verdict": "holds", "measured": "6 of 6"}
    first, second = re.findall(r"<li .*?</li>", claims({"machine": {}, "claims": values}), re.DOTALL)
    assert "data-guess" in first and '<div class="ds-found" hidden>' in first
    assert "data-guess" not in second and '<div class="ds-found">' in second and "Not measured yet" in second


def test_a_verdict_without_its_condition_is_a_whole_sentence() -> None:
    """The list once said "Holds here only if", and then nothing."""
    values = [saved.claim_values(CLAIMS[0], CLAIMS[0].judged(SavedResults())) | {"verdict": "holds here only if"}]
    shown = claims({"machine": {}, "claims": values})
    assert "<strong>Holds only sometimes</strong>" in shown and "Holds here only if" not in shown


def test_nothing_of_a_file_is_markup() -> None:
    names = ("sentence", "command", "rule", "verdict", "measured", "change", "formula")
    evil = {"machine": {EVIL: EVIL}, "claims": [{"number": 1} | dict.fromkeys(names, EVIL)]}
    assert "<script" not in claims(evil)


def test_shipped_verdicts_were_written_by_the_command() -> None:
    """Sentences, commands and rules are those of the table, so that no file is edited or left behind."""
    for file in (assets() / "results").glob(f"*/{saved.FILE}"):
        found = json.loads(file.read_text(encoding="utf-8"))
        assert found["machine"] and found["created"]
        for claim, own in zip(CLAIMS, found["claims"], strict=True):
            assert (own["number"], own["sentence"], own["command"], own["rule"]) == (
                claim.number, claim.sentence, claim.command, claim.rule,
            )  # fmt: skip
            assert own["verdict"] in list(ClaimVerdict)


def bench(rows: int, draft: str) -> dict[str, Any]:
    row = {
        "name": "draft, gamma 4", "system": "draftscope", "drafter": "draft", "gamma": 4, "length": None,
        "lossy": False, "kind": "code", "temperature": 0.0, "batch": 1, "context": None,
        "ratio_to_plain": RATIO, "prediction": PARTS, "mean_acceptance_length": 2.0,
        "gap_ms": {"p50": 0.0, "p99": 3.0, "sd": 1.0}, "runs": 3,
    }  # fmt: skip
    return {"machine": {"target": "t", "draft": draft}, "rows": [row] * rows}


def test_results_of_a_folder_are_read_together_and_other_drafts_apart(tmp_path: Path) -> None:
    for name, found in (("a", bench(1, "mamba2")), ("b", bench(3, "small")), ("c", bench(2, "small"))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "bench.json").write_text(json.dumps(found), encoding="utf-8")
    evidence = in_folder(tmp_path)
    assert len(evidence.rows) == 5 and {name: len(rows) for name, rows in evidence.by_draft.items()} == {
        "mamba2": 1, "small": 5,
    }  # fmt: skip
    saved.save(tmp_path / "claims.json", evidence, CLAIMS[11:12])
    assert json.loads((tmp_path / "claims.json").read_text())["machine"]["draft"] == "small"


def test_commands_are_run_once_within_their_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[str] = []

    def running(command: str, folder: Path, _: float) -> Iterator[float]:
        ran.append(command)
        if "regret" in command:
            raise DraftscopeError(f"{command} gave no results: no luck.")
        (folder / "bench.json").write_text("{}")
        yield 0.0

    said: list[str] = []
    monkeypatch.setattr(commands, "running", running)
    run_commands(CLAIMS, tmp_path, 60, said.append)
    wanted = commands_to_run(CLAIMS)
    assert ran == wanted and len(ran) == len(set(ran))
    assert all(commands.runnable(command) for command in wanted)
    assert any("no luck" in each for each in said)
    ran.clear()
    run_commands(CLAIMS, tmp_path, 60, said.append)
    assert [command for command in ran if "regret" not in command] == []
    run_commands(CLAIMS, tmp_path / "late", 0, said.append)
    assert any(each.startswith("Not run") for each in said)
