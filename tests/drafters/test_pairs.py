"""The list of known pairs: complete, consistent, and right about what this version can run."""

from __future__ import annotations

import json

import pytest

from draftscope import drafters
from draftscope.drafters.catalog import DRAFT_MODEL, DRAFTER_OF, PAIRS, PARAMETERS, THROUGH_TEXT
from draftscope_app.cli import main


def test_every_pair_has_a_size_and_is_named_once() -> None:
    assert {name for pair in PAIRS for name in (pair.target, pair.drafter)} == set(PARAMETERS)
    assert len({(pair.target, pair.drafter) for pair in PAIRS}) == len(PAIRS)
    llama = next(pair for pair in PAIRS if pair.target.endswith("Llama-3.1-8B-Instruct") and pair.kind == DRAFT_MODEL)
    assert (round(llama.gb, 1), llama.gated, llama.runs) == (18.5, True, True)


def test_what_runs_is_what_is_registered() -> None:
    for pair in PAIRS:
        assert pair.runs == (DRAFTER_OF[pair.kind] in drafters.known())


def test_a_pair_of_two_tokenizers_is_listed_with_the_drafter_through_text() -> None:
    kinds = {pair.kind for pair in PAIRS}
    assert set(DRAFTER_OF) == kinds and all(pair.runs for pair in PAIRS)
    (note,) = {pair.note for pair in PAIRS if pair.kind == THROUGH_TEXT}
    assert note == "another tokenizer"
    assert drafters.find(DRAFTER_OF[THROUGH_TEXT]).needs_text_draft


def test_the_command_prints_a_row_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["pairs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if "/" in line]) == len(PAIRS)
    assert max(map(len, lines)) <= 140
    assert main.main(["pairs", "--json"]) == 0
    assert [row["target"] for row in json.loads(capsys.readouterr().out)] == [pair.target for pair in PAIRS]
