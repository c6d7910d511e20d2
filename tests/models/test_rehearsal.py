"""The engine's code for CUDA on a card that is not there (`tests/support/card.py`): it must write the CPU's tokens.

Every case decodes twice, so that the second session reuses the first one's memory and graphs. A case fails on two
devices in one operation, on a read, a copy or a wait in a capture, on memory of a capture used outside it, and on
streams that do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from draftscope.decode.lab import Lab
from tests.decode.test_loop import DRAFTERS
from tests.support import card as cards
from tests.support.card import Card
from tests.support.rehearsal import small_pair, written

PROMPTS = [[5, 6, 7], [8, 9], [5, 6, 7, 8]]
SHORT = ("plain", "ngram", "draft", "sampled-tree", "eagle3", "medusa", "eagle3-tree", "lookahead")
GREEDY = {"temperature": 0.0}
SAMPLED = {"temperature": 0.8, "top_k": 40, "top_p": 0.9}


@pytest.fixture
def card() -> Iterator[Card]:
    if why := cards.why_not():
        pytest.skip(why)
    with cards.card() as made:
        yield made


@pytest.fixture(scope="module")
def here() -> Lab:
    """The same models on the CPU."""
    return small_pair()


def rehearse(card: Card, here: Lab, prompts: list[list[int]], settings: dict[str, Any]) -> None:
    """Both sessions write the CPU's tokens, graphs stay on, and nothing is wrong."""
    there = small_pair("cuda", graphs=True)
    found, wanted = written(there, settings, prompts, card), written(here, settings, prompts)
    assert found.tokens == wanted.tokens
    assert card.wrong == []
    assert found.states == ["on", "on"]


@pytest.mark.parametrize("drafter", SHORT)
def test_a_card_writes_what_the_cpu_writes(card: Card, here: Lab, drafter: str) -> None:
    """Greedy and one text for every other drafter, sampled and three texts for those between."""
    greedy = SHORT.index(drafter) % 2 == 0
    settings = {"drafter": drafter, **DRAFTERS[drafter], **(GREEDY if greedy else SAMPLED)}
    prompts = PROMPTS[:1] if greedy else PROMPTS
    rehearse(card, here, prompts, {**settings, "max_new_tokens": 12, "seed": 3})


@pytest.mark.slow
@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("batch", [1, 3])
def test_every_drafter_on_a_card(card: Card, here: Lab, drafter: str, sampling: dict[str, Any], batch: int) -> None:
    settings = {"drafter": drafter, **DRAFTERS[drafter], **sampling, "max_new_tokens": 20, "seed": 3}
    rehearse(card, here, PROMPTS[:batch], settings)
