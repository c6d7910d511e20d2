"""Models in which some layers keep a state: restoring it, reading tokens again, and the output distribution."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from draftscope import DraftscopeError
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.measure.findings import FALSE_ALARM
from draftscope.models.forward.emulated_size import SHAPES
from draftscope.models.forward.layers_with_state import Hybrid, HybridCache
from draftscope.models.model import Model
from draftscope.models.probe import probed
from tests.models.test_cache import CLOSE, fresh
from tests.support.architectures import CASES, network
from tests.support.distribution import distribution_test
from tests.support.models import letters, random_llama

CASE = {case.name: case for case in CASES}
NAMES = ["Jamba", "Qwen3-Next", "LFM2"]
PROMPT = "abcdefghij"


def model_of(name: str, vocabulary: int = 48, seed: int = 1) -> Model:
    return probed(network(CASE[name], seed, vocab_size=vocabulary), name)


def lab_of(name: str, vocabulary: int = 48) -> DecodingEngine:
    """A hybrid target and a hybrid draft of the same architecture."""
    engine = DecodingEngine(model_of(name, vocabulary), model_of(name, vocabulary, seed=2), letters(vocabulary))
    engine.eos = frozenset()
    return engine


def chain(model: Model, cache: Any, tokens: list[int]) -> torch.Tensor:
    """Logits [T, V] of one more forward of a chain."""
    return model.forward(cache, torch.tensor([tokens]), torch.arange(len(tokens))[None])[0]


def keep(cache: Any, count: int) -> None:
    cache.keep_first(torch.tensor([count]), 0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("prompt", [9, 0])
def test_logits_equal_those_of_the_text_after_any_rounds(name: str, prompt: int) -> None:
    """After rounds that keep all, some and none of their rows, with a prompt and without."""
    play_rounds(model_of(name), prompt)


def play_rounds(model: Model, prompt: int) -> None:
    generator = torch.Generator().manual_seed(4)
    text = torch.randint(2, 48, (prompt,), generator=generator).tolist()
    cache = model.cache(1, 64)
    model.read(cache, [text])
    for rows, kept in [(4, 2), (3, 1), (4, 2), (3, 3), (4, 0), (4, 1), (3, 0), (1, 1), (2, 2)]:
        tokens = torch.randint(2, 48, (rows,), generator=generator).tolist()
        logits = chain(model, cache, tokens)
        torch.testing.assert_close(logits, fresh(model, text + tokens)[len(text) :], **CLOSE)
        keep(cache, kept)
        text += tokens[:kept]


def test_only_the_newest_accepted_tokens_are_read_again() -> None:
    """Older tokens are in the saved state."""
    model = model_of("Qwen3-Next")
    cache = model.cache(1, 64)
    assert isinstance(cache, HybridCache)
    model.read(cache, [[2, 3, 4]])
    read = []
    for _ in range(6):
        chain(model, cache, [5, 6, 7, 8])
        keep(cache, 3)
        read.append(cache.again.shape[1])
    assert read == [3] * 6
    chain(model, cache, [9])
    keep(cache, 1)
    assert cache.again.shape[1] == 0
    assert int(cache.table.length) == 3 + 6 * 3 + 1


@pytest.mark.parametrize("name", NAMES)
def test_drafting_step_by_step_and_truncating_equals_a_fresh_prefill(name: str) -> None:
    """As a draft model is used: row by row, some of them kept, then the tokens that are missing."""
    model, text = model_of(name), list(range(2, 11))
    cache = model.cache(1, 64)
    model.read(cache, [text])
    for depth, token in enumerate((20, 21, 22)):
        model.forward(cache, torch.tensor([[token]]), torch.tensor([[depth]]))
    keep(cache, 1)
    cache.truncate(torch.tensor([10]), 10)  # no row is open, so nothing is dropped
    logits = chain(model, cache, [30, 31])
    torch.testing.assert_close(logits, fresh(model, [*text, 20, 30, 31])[-2:], **CLOSE)
    cache.truncate(torch.tensor([10]), 10)  # drops both rows
    torch.testing.assert_close(chain(model, cache, [33]), fresh(model, [*text, 20, 33])[-1:], **CLOSE)
    with pytest.raises(ValueError, match="cannot be truncated"):
        cache.truncate(torch.tensor([4]), 4)
    cache.truncate(torch.tensor([0]), 0)
    torch.testing.assert_close(chain(model, cache, [7, 8]), fresh(model, [7, 8]), **CLOSE)


def test_layers_that_continue_only_row_by_row_are_detected() -> None:
    rows = {name: model_of(name).run.row_by_row for name in NAMES}
    assert rows == {"Jamba": True, "Qwen3-Next": False, "LFM2": False}


def p_value(engine: DecodingEngine) -> float:
    """Of the chi-square test; one text at a time."""
    settings = Settings.of(drafter="draft", gamma=3, temperature=1.0, seed=5, top_k=3)
    return distribution_test(engine, "abcab", settings, length=2, samples=100).p_value


@pytest.mark.parametrize("name", NAMES)
def test_output_follows_the_target_distribution(name: str) -> None:
    assert p_value(lab_of(name, 5)) > FALSE_ALARM


def test_a_hybrid_model_can_draft_for_another_target(tiny: DecodingEngine) -> None:
    engine = DecodingEngine(tiny.target, model_of("Qwen3-Next", 5), letters(5))
    assert p_value(engine) > FALSE_ALARM


def test_a_state_that_is_not_restored_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("Qwen3-Next")
    monkeypatch.setattr(HybridCache, "_restore", lambda self: None)
    with pytest.raises(AssertionError):
        play_rounds(model, 9)
    with pytest.raises(DraftscopeError, match="gives other logits"):  # such a model is refused on loading
        model_of("Qwen3-Next")


def test_a_state_saved_too_early_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """If it is saved before the rows that are read again, they are missing the next time."""
    original = Hybrid._in_parts

    def early(self: Hybrid, forward: Any, layer: int, *args: Any, **kwargs: Any) -> Any:
        if self._cache is not None:
            self._cache.save(layer)
        return original(self, forward, layer, *args, **kwargs)

    monkeypatch.setattr(Hybrid, "_in_parts", early)
    with pytest.raises(AssertionError):
        play_rounds(model_of("Qwen3-Next"), 9)


@pytest.mark.parametrize("name", NAMES)
def test_each_round_takes_one_forward_and_writes_plains_greedy_tokens(name: str) -> None:
    engine = lab_of(name)
    want = engine.decode(PROMPT, "plain", max_new_tokens=24).token_ids
    for drafter in ("draft", "ngram", "bandit"):
        ran: list[int] = []
        handle = engine.target.network.register_forward_hook(lambda *_, ran=ran: ran.append(1))
        with engine.target.counter.widths() as widths:
            run = engine.decode(PROMPT, drafter, gamma=3, max_new_tokens=24, arms=("draft:2", "ngram:3"))
        handle.remove()
        assert run.token_ids == want
        assert widths[1:] == [event.width for event in run.round_events]
        assert len(ran) == len(run.round_events) + 1  # of the network itself: reading again takes no extra forward


def test_the_target_as_its_own_draft_is_always_accepted() -> None:
    engine = lab_of("Qwen3-Next", 5)
    twin = DecodingEngine(engine.target, engine.target, engine.tokenizer)
    twin.eos = frozenset()
    run = twin.decode("abcab", "draft", gamma=3, temperature=1.0, max_new_tokens=40)
    whole = [event for event in run.round_events if event.depth == 3]
    assert sum(event.last.kind == "bonus" for event in whole) >= len(whole) - 1 > 5


def test_an_end_inside_a_round_and_a_cancelled_run_leave_no_state() -> None:
    engine = lab_of("LFM2")
    want = engine.decode(PROMPT, "plain", max_new_tokens=16).token_ids
    ends = DecodingEngine(engine.target, engine.draft, engine.tokenizer)
    ends.eos = frozenset({want[6]})
    assert ends.decode(PROMPT, "draft", max_new_tokens=16).token_ids == want[: want.index(want[6]) + 1]
    next(engine.start(PROMPT, Settings.of(drafter="draft"), record=False).steps())
    assert engine.decode(PROMPT, "draft", max_new_tokens=16).token_ids == want


def test_unsupported_uses_are_refused_with_a_reason() -> None:
    engine = lab_of("Qwen3-Next")
    assert not engine.target.trees
    for drafter, sentence in {"topk-tree": "Instead of 'topk-tree' choose", "early-exit": "keep a state"}.items():
        with pytest.raises(DraftscopeError, match=sentence):
            engine.decode(PROMPT, drafter)
    with pytest.raises(DraftscopeError, match="has to discard tokens that its models have read"):
        engine.decode(PROMPT, "cascade")
    with pytest.raises(DraftscopeError, match="keeps a state, so it can emulate no size"):
        engine.target.emulate(SHAPES["1b"])
    assert "keeps a state in some layers, so it supports only chains" in engine.target.limits
    cache = engine.target.cache(2, 16)
    engine.target.forward(cache, torch.tensor([[2, 3], [4, 5]]), torch.arange(2).expand(2, -1))
    with pytest.raises(ValueError, match="states of 2 sequences cannot keep"):
        cache.keep_first(torch.tensor([1, 2]), 2)


def test_its_memory_is_the_states_plus_keys_and_values() -> None:
    model = model_of("LFM2")
    per_token = 2 * 1 * 2 * 8 * 4  # keys and values: one of two layers, 2 heads of 8, fp32
    state = 32 * 3 * 4  # the last inputs of a convolution over 3
    assert [model.kept_bytes(tokens) for tokens in (0, 10)] == [state, state + 10 * per_token]
    assert probed(random_llama(3, 48), "dense").kept_bytes(0) == 0
