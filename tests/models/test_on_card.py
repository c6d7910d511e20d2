"""What went wrong, or would have, on a card: each test failed before the engine was mended."""

# ruff: noqa: F811 - fixtures are imported, and asked for by name

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch

from draftscope import drafters
from draftscope.base.steps import last
from draftscope.decode.calibration import interleaved
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.start import models_of
from draftscope.drafters.settings import Settings
from draftscope.models.files import memory_needed
from draftscope.models.forward.graphs import OnCuda
from draftscope.models.model import Model
from draftscope.trace.events import Round
from tests.decode.test_loop import DRAFTERS
from tests.models.test_rehearsal import card, here  # noqa: F401 - fixtures
from tests.support.card import Card
from tests.support.rehearsal import PROMPTS, SAMPLED, small_pair, written

pytestmark = pytest.mark.slow  # in `make test` one drafter is rehearsed: test_rehearsal.py
CHAIN: dict[str, Any] = {"drafter": "draft", "gamma": 3, **SAMPLED}


@pytest.fixture
def there(card: Card) -> DecodingEngine:
    return small_pair("cuda", graphs=True)


@pytest.mark.parametrize(
    "more",
    [{}, {"drafter": "early-exit"}, {"drafter": "sampled-tree", "shape": (2, 1)}],
)
def test_a_prompt_of_one_token_leaves_no_graph_without_a_mask(
    card: Card, here: DecodingEngine, there: DecodingEngine, more: Any
) -> None:
    settings = CHAIN | more
    for prompts in ([[7]], PROMPTS[:1]):
        assert written(there, settings, prompts, card).tokens == written(here, settings, prompts, sessions=1).tokens * 2


def test_a_second_card_records_its_graphs_on_itself(card: Card, here: DecodingEngine) -> None:
    second = small_pair("cuda:1", graphs=True)
    found = written(second, CHAIN, PROMPTS[:1], card)
    assert found.tokens == written(here, CHAIN, PROMPTS[:1], sessions=1).tokens * 2
    assert found.states == ["on", "on"] and found.counts["replay"] > 1.5
    assert torch.cuda.current_device() == 0


def test_ssd_records_nothing_beside_the_target(card: Card, here: DecodingEngine, there: DecodingEngine) -> None:
    settings = CHAIN | {"drafter": "ssd"}
    found = written(there, settings, PROMPTS[:1], card, sessions=3)
    assert found.tokens == written(here, settings, PROMPTS[:1], sessions=1).tokens * 3
    assert card.wrong == [] and found.states == ["on", "on"]
    assert found.counts["capture"] == 0 and found.counts["replay"] > 4


def test_memory_that_held_nan_is_cleared_for_the_next_text(
    card: Card, here: DecodingEngine, there: DecodingEngine
) -> None:
    for turn in range(2):
        assert written(there, CHAIN, PROMPTS, card).tokens == written(here, CHAIN, PROMPTS, sessions=1).tokens * 2, turn
        for model in there.models:
            assert model.graphs is not None and model.graphs._free
            for block in model.graphs._free:
                assert block.stores[0].blocks
                for rows in block.stores[0].blocks.values():
                    rows.fill_(float("nan"))


@pytest.mark.parametrize(
    "drafter",
    ["block", "eagle3", "medusa", "dspark", "eagle3-tree"],
)
def test_a_head_drafts_from_graphs_and_keeps_ended_texts(card: Card, there: DecodingEngine, drafter: str) -> None:
    assert models_of(there, drafters.find(drafter))[-1].graphs == "on"
    session = there.start_batch(PROMPTS, Settings.of(drafter=drafter, max_new_tokens=4), (0, 1, 2))
    next(session.steps())
    assert not session.drafter.select_rows([0, 2])
    settings = {"drafter": drafter, **DRAFTERS[drafter], **SAMPLED}
    found = written(there, settings, PROMPTS[:1], card, sessions=3)
    assert found.counts["replay"] > 1 and models_of(there, drafters.find(drafter))[-1].graphs == "on"


def test_a_trace_says_which_rounds_recorded_graphs(card: Card, there: DecodingEngine) -> None:
    for least in (1, 0):
        card.counted.clear()
        events = there.start("abc", Settings.of(**CHAIN)).events()
        said = [event.timings.graphs_recorded for event in events if isinstance(event, Round)]
        assert sum(filter(None, said)) == card.total("capture") and None in said
        assert card.total("capture") >= least
        del events
        gc.collect()


def test_a_failed_capture_leaves_the_current_stream(card: Card) -> None:
    before, x = torch.cuda.current_stream(), torch.ones(3, device="cuda")
    record = OnCuda(x.device)
    with pytest.raises(RuntimeError, match="previous error during capture"):
        record(lambda: (x.sum() if bool(x[0] > 0) else x,))
    assert torch.cuda.current_stream() is before
    (found,), replay = record(lambda: (x * 2,))
    replay()
    assert found.tolist() == [2.0, 2.0, 2.0]


def test_memory_that_torch_keeps_is_free(card: Card, there: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    card.memory, card.reserved, card.allocated = (10, 100), 50, 20
    assert memory_needed.free_bytes(there.target.device) == 40
    monkeypatch.setattr(memory_needed, "MIN_CHECKED", 0)
    card.memory = (10**9, 10**9)
    there.target.cache(1, 300)
    assert there.target.graphs is not None and there.target.graphs.smallest_free(1, 200) is not None
    card.memory = (0, 10**9)
    cache = there.target.cache(1, 200)  # in the memory of the first, although nothing is free
    assert cache.table.capacity == 512 and there.target.graphs.smallest_free(1, 200) is None


def test_kept_memory_is_given_up_when_it_runs_out(
    card: Card, there: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    target: Model = there.target
    target.cache(1, 300)
    assert target.graphs is not None and target.graphs.smallest_free(1, 300) is not None
    monkeypatch.setattr(memory_needed, "MIN_CHECKED", 0)
    free = iter([0, 10**9])
    monkeypatch.setattr(memory_needed, "free_bytes", lambda device: next(free))
    target.cache(2, 300)
    assert target.graphs.smallest_free(1, 300) is None


@pytest.mark.parametrize("drafter", ["draft", "eagle3-tree", "medusa-tree"])
def test_times_of_launches_are_not_shown_as_times_of_forwards(card: Card, drafter: str) -> None:
    eager = small_pair("cuda")
    session = eager.start_batch(PROMPTS[:1], Settings.of(drafter=drafter, max_new_tokens=4), (0,))
    assert {step.tree.forward_ms for step in session.steps()} == {()}


def test_a_measurement_waits_for_the_card_that_is_measured(card: Card) -> None:
    x = torch.ones((4, 4), device="cuda:1")
    last(interleaved([lambda: x @ x], x.device, 1))
    assert torch.cuda.current_stream(1).query()


def test_the_first_layers_find_their_graphs_warm(card: Card, there: DecodingEngine) -> None:
    settings = CHAIN | {"drafter": "early-exit", "exit_layer": 1}
    assert written(there, settings, PROMPTS[:1], card, sessions=3).counts["capture"] == 0
