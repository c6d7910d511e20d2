"""Every architecture of the table: trees equal paths, rollback, greedy equality with transformers, the distribution.

Prompts are longer than the sliding windows.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from transformers import GenerationConfig

from draftscope import DraftscopeError
from draftscope.base.markdown import one_line
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.measure.joint import sampled_joint
from draftscope.models import model as model_module
from draftscope.models.cache.slots import SlotCache, SlotTable
from draftscope.models.model import Model
from draftscope.models.probe import probed
from draftscope.verify.tree import Topology, full, topology
from tests.models.test_cache import CLOSE, fresh, path_to
from tests.support.architectures import CASES, WINDOW, network, table, takes
from tests.support.distribution import distribution_test
from tests.support.models import letters

NAMES = {case.name: case for case in CASES}
TREES = [case.name for case in CASES if case.takes == "trees"]
CHAINS = [case.name for case in CASES if case.takes == "chains"]
PROMPT = "abcdefghijklmnopq"
DTYPES = [torch.float32, torch.bfloat16]
SUPPORTED = [
    *((name, torch.float32) for name in NAMES),
    *((name, torch.bfloat16) for name in ("Llama, SmolLM2", "Qwen3")),
]
assert len(PROMPT) > 2 * WINDOW


@cache
def model_of(name: str, seed: int = 0, vocabulary: int = 48) -> Model:
    """A random model of the architecture; probed once, since no test changes it."""
    return probed(network(NAMES[name], seed, vocab_size=vocabulary), name)


@pytest.mark.parametrize(("name", "dtype"), SUPPORTED)
def test_a_model_supports_what_the_table_says(name: str, dtype: torch.dtype) -> None:
    assert takes(NAMES[name], dtype) == NAMES[name].takes


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_probe_detects_an_ignored_mask(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    original = model_module.attention_mask
    monkeypatch.setattr(
        model_module, "attention_mask", lambda table, reach, _, additive: original(table, reach, None, additive)
    )
    assert takes(NAMES["Gemma 2"], dtype) == takes(NAMES["GPT-2"], dtype) == "chains"


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_probe_detects_positions_counted_by_slot(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    original = Model.forward

    def by_slot(
        self: Model, cache: SlotCache, tokens: torch.Tensor, offsets: torch.Tensor, *rest: Any, **more: Any
    ) -> Any:
        return original(self, cache, tokens, torch.arange(tokens.shape[1]).expand_as(offsets), *rest, **more)

    monkeypatch.setattr(Model, "forward", by_slot)
    assert takes(NAMES["Gemma 2"], dtype) == takes(NAMES["GPT-2"], dtype) == "chains"


def test_the_table_has_a_row_for_each_case() -> None:
    """The first test checks it against the models, tests/test_documents.py against the table in engine/README.md."""
    markdown = table([case.takes for case in CASES])
    marks = {"trees": " yes | yes ", "chains": " no | yes ", "nothing": " no | no "}
    for case, row in zip(CASES, markdown.splitlines()[2:], strict=True):
        assert one_line(row) == one_line(f"| {case.name} (`{case.kind}`) |{marks[case.takes]}| {case.note} |")


# Trees.


def prompts() -> list[list[int]]:
    long = torch.randint(2, 48, (WINDOW + 9,), generator=torch.Generator().manual_seed(3)).tolist()
    return [long, long[:3]]  # one is longer than the window, the other only together with its tree


def assert_tree_is_paths(
    model: Model, texts: list[list[int]], tokens: torch.Tensor, form: Topology, logits: torch.Tensor
) -> None:
    """The logits [B, N + 1, V] of a tree equal those of each path from the root to a leaf, read alone."""
    for b, text in enumerate(texts):
        inner = set(form.parents[b].tolist())
        for leaf in (node for node in range(form.nodes) if node not in inner):
            slots = [0, *(node + 1 for node in path_to(form, b, leaf))]
            alone = fresh(model, text + [int(tokens[b, slot]) for slot in slots])[len(text) :]
            torch.testing.assert_close(logits[b, slots], alone, **CLOSE)


@pytest.mark.parametrize("name", TREES)
def test_tree_logits_equal_path_logits_before_and_after_a_rollback(name: str) -> None:
    """Two texts of different lengths: a tree each, then a path of different length kept in each, then another tree."""
    model = model_of(name)
    texts = prompts()
    form = topology([[-1, 0, -1, 2, 3, 4], [-1, -1, -1, 0, 3, 4]])
    tokens = torch.randint(2, 48, (2, 2, form.nodes + 1), generator=torch.Generator().manual_seed(1))
    cache = model.cache(2, 48)
    model.read(cache, texts)
    assert_tree_is_paths(model, texts, tokens[0], form, model.forward(cache, tokens[0], form.depth, form.ancestors))

    rows = torch.tensor([[0, 3, 4, 5], [0, 2, -1, -1]])
    kept = [[int(tokens[0, b, row]) for row in rows[b] if row >= 0] for b in range(2)]
    texts = [text + path for text, path in zip(texts, kept, strict=True)]
    cache.keep(rows, torch.tensor([len(path) for path in kept]), max(len(text) for text in texts))
    assert_tree_is_paths(model, texts, tokens[1], form, model.forward(cache, tokens[1], form.depth, form.ancestors))


@pytest.mark.parametrize("name", TREES)
def test_a_tree_read_level_by_level_has_the_same_logits(name: str) -> None:
    """As a draft model reads it: earlier levels are open rows, whose positions matter for a sliding window."""
    model = model_of(name)
    form, text = full((2, 2, 2)), prompts()[0]
    tokens = torch.randint(2, 48, (1, form.nodes + 1), generator=torch.Generator().manual_seed(2))
    cache = model.cache(1, 48)
    model.read(cache, [text])
    logits = [
        model.forward(cache, tokens[:, at:end], form.depth[:, at:end], form.ancestors[:, at:end, :end])
        for at, end in ((0, 1), (1, 3), (3, 7), (7, 15))
    ]
    assert_tree_is_paths(model, [text], tokens, form, torch.cat(logits, 1))


@pytest.mark.parametrize("name", ["Gemma 3", "Mistral"])
def test_a_window_that_counts_slots_is_caught(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The mistake that the masks avoid: there are 7 rows after the prompt, but none is deeper than 2."""

    def slots(table: SlotTable) -> torch.Tensor:
        return torch.arange(table.view).repeat(len(table.length), 1)

    model = model_of(name)
    monkeypatch.setattr(SlotTable, "positions", slots)
    form, text = full((2, 2)), prompts()[0]
    tokens = torch.arange(2, 9)[None]
    cache = model.cache(1, 48)
    model.read(cache, [text])
    with pytest.raises(AssertionError):
        assert_tree_is_paths(model, [text], tokens, form, model.forward(cache, tokens, form.depth, form.ancestors))


# Decoding.


def pair(
    name: str, vocabulary: int = 48, draft_vocabulary: int | None = None, tokens: int | None = None
) -> DecodingEngine:
    """A random target and a random draft of the architecture, with a tokenizer of letters."""
    target, draft = model_of(name, 0, vocabulary), model_of(name, 1, draft_vocabulary or vocabulary)
    engine = DecodingEngine(target, draft, letters(tokens or vocabulary))
    engine.eos = frozenset()
    return engine


@pytest.mark.parametrize("name", TREES + CHAINS)
def test_greedy_decoding_equals_transformers(name: str) -> None:
    engine = pair(name)
    prompt = torch.tensor([engine.encode(PROMPT)])
    config = GenerationConfig(max_new_tokens=7, do_sample=False, eos_token_id=None, pad_token_id=1)
    engine.target.network.generation_config.eos_token_id = None
    expected = engine.target.network.generate(prompt, attention_mask=torch.ones_like(prompt), generation_config=config)
    for drafter in ["draft", "topk-tree"] if name in TREES else ["draft"]:
        run = engine.decode(PROMPT, drafter, gamma=3, shape=(2, 2), max_new_tokens=7, record=False)
        assert run.token_ids == expected[0, prompt.shape[1] :].tolist()


@pytest.mark.parametrize("name", ["Gemma 2", "Gemma 3", "Gemma 4", "Mistral", "GPT-2", "Qwen3-MoE"])
def test_output_follows_the_target_distribution(name: str) -> None:
    """Trees of two levels after a prompt longer than the window; every fifth token is drawn in a third round."""
    engine = pair(name, vocabulary=5)
    settings = Settings.of(drafter="sampled-tree", shape=(2, 2), temperature=2.0, seed=3)
    finding = distribution_test(engine, "abcdeabcdeabc", settings, length=3, samples=1500)
    assert finding.passed, finding.detail


@pytest.mark.parametrize(("target", "draft"), [(7, 5), (5, 7)])
def test_padded_embeddings_do_not_change_the_distribution(target: int, draft: int) -> None:
    """Qwen2.5 pads its 0.5B and its 7B differently: here a tokenizer of 5 tokens and embeddings of different sizes."""
    engine = pair("Qwen3", target, draft, tokens=5)
    for drafter in ("draft", "sampled-tree"):
        settings = Settings.of(drafter=drafter, gamma=2, shape=(2, 2), temperature=2.0, seed=4)
        finding = distribution_test(engine, "abcdeabc", settings, length=3, samples=1500)
        assert finding.passed, finding.detail


# Models without trees.


@pytest.mark.parametrize("name", CHAINS)
def test_tree_drafters_are_refused_for_models_with_only_chains(name: str) -> None:
    engine = pair(name)
    offered = {info.name: info for info in engine.drafters()}
    assert offered["draft"].available and not offered["sampled-tree"].available
    assert offered["topk-tree"].why_not == f"'{name}' takes no trees"
    with pytest.raises(DraftscopeError, match="Instead of 'topk-tree' choose 'draft'"):
        engine.decode(PROMPT, "topk-tree")


def test_batches_of_unequal_texts_are_refused_for_models_with_only_chains() -> None:
    model = model_of("Bloom")
    cache = model.cache(2, 16)
    model.read(cache, [[2, 3, 4], [5]])
    with pytest.raises(DraftscopeError, match="one text at a time"):
        model.forward(cache, torch.tensor([[6], [7]]), torch.zeros(2, 1, dtype=torch.long))


def test_checks_decode_models_with_only_chains_one_text_at_a_time() -> None:
    engine = pair("Bloom", vocabulary=5)
    settings = Settings.of(drafter="draft", gamma=2, temperature=1.0)
    assert sampled_joint(engine, engine.encode("abcde"), settings, 2, samples=6).total() == 6


@pytest.mark.parametrize(("name", "sentence"), [("Mamba", "cannot roll back"), ("RWKV", "could not be trusted")])
def test_a_recurrent_model_is_refused_in_one_sentence(name: str, sentence: str) -> None:
    with pytest.raises(DraftscopeError, match=sentence):
        probed(network(NAMES[name]), name)


def test_a_text_may_not_cross_the_switch_of_longropes_factors() -> None:
    factors = {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 20, **factors}
    case = NAMES["Phi-3"]
    model = probed(network(case, rope_parameters=rope, original_max_position_embeddings=20), "phi")
    engine = DecodingEngine(model, None, letters(48))
    assert model.rope_switch_length == 20
    with pytest.raises(DraftscopeError, match="rotary factors at 20 tokens, and 17 with 8 more would cross"):
        engine.encode(PROMPT, 8)
    assert len(engine.encode(PROMPT, 3)) == 17
    assert len(engine.encode(PROMPT * 2, 8)) == 34
