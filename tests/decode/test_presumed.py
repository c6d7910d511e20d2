"""Costs that are presumed before any are measured: those of a kind of processor, and a rule for the others."""

from __future__ import annotations

import pytest

from draftscope.base.presumed_costs import RULE, STORED, WIDENED, Kind, PresumedCosts
from draftscope.decode import presumed as module
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.presumed import kind_of, presumed


@pytest.mark.parametrize("kind", [STORED, WIDENED, RULE])
def test_more_rows_never_cost_less_and_plain_decoding_costs_one(kind: Kind) -> None:
    costs = PresumedCosts(kind, {"draft": 0.2})
    rounds = [costs.round_cost("draft", gamma) for gamma in range(40)]
    assert rounds[0] == 1.0
    assert rounds == sorted(rounds)
    assert costs.round_cost("ngram", 4) < costs.round_cost("draft", 4)  # reads no weights
    assert costs.tree_cost("draft", 4, 2) < costs.tree_cost("draft", 4, 4)  # fewer steps
    assert kind.words in costs.words


@pytest.mark.parametrize(
    ("has", "stored", "kind"),
    [
        ({"avx512vnni"}, True, STORED),
        ({"avx512bf16"}, True, RULE),
        ({"avx512bf16"}, False, WIDENED),
        (set(), False, RULE),
    ],
)
def test_the_kind_is_that_of_the_instructions_and_the_weights(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, has: set[str], stored: bool, kind: Kind
) -> None:
    monkeypatch.setattr(module, "has", has.__contains__)
    monkeypatch.setattr(module, "stored_weights", lambda _: [None] if stored else [])
    assert kind_of(pair.target) is kind


def test_a_draft_step_reads_its_share_of_the_weights(pair: DecodingEngine) -> None:
    steps = presumed(pair).steps
    assert set(steps) == {"draft", *pair.heads}
    assert all(0 < step < 2 for step in steps.values())
