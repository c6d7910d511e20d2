"""The map's numbers: they are the model's, "what if" changes what it says, and a card is a forecast."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from draftscope.advise.candidates import Candidate
from draftscope.advise.observed import typed
from draftscope.advise.round_costs import CalibratedCosts
from draftscope.advise.speed_model import PrefillTimes, steady_ratio
from draftscope.advise.surface import surface
from draftscope.advise.what_if import CARDS, Sizes, WhatIf, answer_ratio, ratios, refusal, round_costs, taus
from draftscope.forecast.hardware_tables import Card
from tests.support.models import made_calibration

GAMMAS, READERS = (1, 3, 5), (1, 2, 4)
OBSERVED = {Candidate("draft", gamma): typed([0.7], gamma) for gamma in GAMMAS}
COSTS = CalibratedCosts(made_calibration(), 100)
NOTHING = WhatIf()


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    made = surface("draft", OBSERVED, COSTS, Sizes(1000, 100), (3, 100, PrefillTimes(20.0, {"draft": 5.0})))
    assert made is not None
    return asdict(made)


def test_without_a_change_it_is_the_model(found: dict[str, Any]) -> None:
    for gamma, row in zip(GAMMAS, ratios(found, NOTHING), strict=True):
        for readers, (middle, low, high) in zip(READERS, row, strict=True):
            assert middle == pytest.approx(
                steady_ratio(Candidate("draft", gamma), OBSERVED[Candidate("draft", gamma)], COSTS, readers)
            )
            assert low <= middle <= high


def test_a_drafter_without_chains_has_no_map() -> None:
    assert surface("sampled-tree", OBSERVED, COSTS, Sizes()) is None


def test_another_acceptance_changes_the_tokens_a_round(found: dict[str, Any]) -> None:
    assert [tau for tau, _, _ in taus(found, WhatIf(alpha=0.5))] == pytest.approx([1.5, 1.875, 1.96875])


def test_a_draft_of_half_the_cost_saves_half_of_gamma_c(found: dict[str, Any]) -> None:
    whole, half = round_costs(found, NOTHING), round_costs(found, WhatIf(draft_cost=0.5))
    for before, after, drafting in zip(whole, half, found["drafting"], strict=True):
        assert [b - a for a, b in zip(after, before, strict=True)] == pytest.approx([each / 2 for each in drafting])


SERVED = {"target_bytes": 16 * 10**9, "draft_bytes": 10**9}


def test_on_a_card_rows_are_nearly_free_until_the_card_multiplies_no_faster(found: dict[str, Any]) -> None:
    costs = {rate: round_costs(found | SERVED, WhatIf(card=Card("card", 1000, rate)))[1][0] for rate in (1, 10, 1000)}
    assert costs[1] > 3.5 and costs[1] > costs[10] > costs[1000] > 1.1
    half = round_costs(found | SERVED, WhatIf(draft_cost=0.5, card=CARDS[0]))
    assert all(
        below < above
        for row, other in zip(half, round_costs(found | SERVED, WhatIf(card=CARDS[0])), strict=True)
        for below, above in zip(row, other, strict=True)
    )


def test_a_card_says_nothing_about_a_toy(found: dict[str, Any]) -> None:
    """A model of 1,000 bytes used to get a map for an H100."""
    on = WhatIf(card=CARDS[0])
    assert "0.00 GB says nothing about H100 SXM" in (refusal(found, on) or "")
    assert refusal(found, NOTHING) is None and refusal(found | SERVED, on) is None


def test_an_answer_on_a_card_has_its_caches_and_prefill(found: dict[str, Any]) -> None:
    on, served = WhatIf(card=CARDS[0]), found | SERVED
    gained = [answer_ratio(served, 2.5, 0, tokens, on) for tokens in (1, 16, 4096)]
    assert gained == sorted(gained) and gained[-1] != pytest.approx(answer_ratio(served, 2.5, 0, 4096), rel=0.01)


def test_longer_answers_earn_the_prefill_back(found: dict[str, Any]) -> None:
    gained = [answer_ratio(found, 2.5, 0, tokens) for tokens in (4, 16, 64, 4096)]
    assert gained == sorted(gained)
    assert gained[-1] == pytest.approx(2.5 / found["by_context"]["cost"][0], rel=0.01)


def test_the_prompts_own_context_is_on_the_map_and_a_cheaper_draft_counts(found: dict[str, Any]) -> None:
    own = found["by_context"]
    assert own["prompt"] in own["contexts"] == sorted(own["contexts"])
    half = answer_ratio(found, 2.5, 0, 10**6, WhatIf(draft_cost=0.5))
    assert half == pytest.approx(2.5 / (own["cost"][0] - own["drafting"][0] / 2), rel=1e-3)
    assert 0 < own["drafting"][0] < own["cost"][0]
