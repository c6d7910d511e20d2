"""The list of known pairs: complete and consistent."""

from __future__ import annotations

import json

import pytest

from draftscope.drafters.catalog import DRAFT_MODEL, PAIRS, PARAMETERS
from draftscope_app.cli import main


def test_every_pair_has_a_size_and_is_named_once() -> None:
    assert {name for pair in PAIRS for name in (pair.target, pair.drafter)} == set(PARAMETERS)
    assert len({(pair.target, pair.drafter) for pair in PAIRS}) == len(PAIRS)
    llama = next(pair for pair in PAIRS if pair.target.endswith("Llama-3.1-8B-Instruct") and pair.kind == DRAFT_MODEL)
    assert (round(llama.gb, 1), llama.gated) == (18.5, True)


def test_the_command_prints_a_row_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["pairs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if "/" in line]) == len(PAIRS)
    assert max(map(len, lines)) <= 140
    assert main.main(["pairs", "--json"]) == 0
    assert [row["target"] for row in json.loads(capsys.readouterr().out)] == [pair.target for pair in PAIRS]
