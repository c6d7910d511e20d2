"""Models whose layers differ from each other: heads of another width, keys shared, windows that no mask has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForImageTextToText, GenerationConfig

from draftscope import DraftscopeError
from draftscope.decode.engine import DecodingEngine
from draftscope.models.cache.slots import SlotLayer
from draftscope.models.loading.checkpoints import CheckpointOptions, find, load_model
from draftscope.models.model import Model
from draftscope.models.probe import probed
from tests.support.architectures import CASES, SMALL, Case, configuration, network
from tests.support.models import letters

HOW = CheckpointOptions(torch.float32, torch.device("cpu"))
NAMES = {case.name: case for case in CASES}
SEEING = [case for case in CASES if case.vision]
PROMPT = "abcdefghijklmnopq"


def loaded(place: Path) -> Model:
    return load_model(find(place, HOW), HOW)


def assert_greedy(model: Model, *drafters: str) -> None:
    """Each drafter writes what transformers' `generate` does."""
    engine = DecodingEngine(model, model, letters(48))
    engine.eos = frozenset()
    tokens = torch.tensor([engine.encode(PROMPT)])
    config = GenerationConfig(max_new_tokens=10, do_sample=False, eos_token_id=None, pad_token_id=1)
    model.network.generation_config.eos_token_id = None
    written = model.network.generate(tokens, attention_mask=torch.ones_like(tokens), generation_config=config)
    for drafter in drafters:
        run = engine.decode(PROMPT, drafter, max_new_tokens=10, record=False)
        assert run.token_ids == written[0, tokens.shape[1] :].tolist(), drafter


def published(place: Path) -> None:
    """As Gemma 4 is published: the width of the heads of the full layers has a key of its own."""
    path = place / "config.json"
    config = json.loads(path.read_text())
    del config["per_layer_config"]
    path.write_text(json.dumps(config | {"global_head_dim": 16}))


def test_a_published_configuration_of_gemma_4_loads(tmp_path: Path) -> None:
    """It ended in a stack trace: `head_dim` is a value of each layer."""
    case = NAMES["Gemma 4"]
    network(case).save_pretrained(tmp_path)
    published(tmp_path)
    model = loaded(tmp_path)
    assert model.trees
    assert_greedy(model, "plain", "draft", "topk-tree", "sampled-tree", "ngram")


@pytest.mark.parametrize("name", ["Gemma 4", "Gemma 4 with experts", "Gemma 3n", "Gemma 3", "Mistral", "Qwen3-Next"])
def test_a_cache_has_the_memory_that_its_layers_fill(name: str) -> None:
    """Of layers of two shapes one got a block for all of them, and the others memory beside it."""
    model = probed(network(NAMES[name]), name)
    cache = model.cache(1, 64)
    model.read(cache, [[2, 3, 4]])
    held = {
        part.untyped_storage().data_ptr(): part.untyped_storage().nbytes()
        for layer in cache.layers
        if isinstance(layer, SlotLayer) and layer.is_initialized
        for part in (layer.keys, layer.values)
    }
    assert not any(layer.apart for layer in cache.layers if isinstance(layer, SlotLayer))
    columns = cache.table.capacity * (model.kept_bytes(1) - model.capabilities.state_bytes)
    assert sum(held.values()) == columns * (2 if name == "Qwen3-Next" else 1)  # which keeps a place for every layer


@pytest.mark.parametrize("case", SEEING, ids=lambda case: case.name)
def test_of_a_model_that_also_sees_the_text_is_decoded(tmp_path: Path, case: Case) -> None:
    torch.manual_seed(0)
    whole = AutoModelForImageTextToText.from_config(configuration(case)).eval()
    whole.save_pretrained(tmp_path)
    model, text = loaded(tmp_path), torch.arange(2, 30)[None]
    torch.testing.assert_close(model.network(text).logits, whole(text).logits)
    assert model.left_out == []
    assert_greedy(model, "draft")


def test_a_model_that_also_sees_without_a_language_model_is_refused(tmp_path: Path) -> None:
    configuration(
        Case("", "mistral3", config={"model_type": "mistral"}, vision={"model_type": "pixtral"})
    ).save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"\2\0\0\0\0\0\0\0{}")
    with pytest.raises(DraftscopeError, match="is a 'mistral3', which reads more than text"):
        find(tmp_path, HOW)


def mixed(kind: str, layer: dict[str, Any], **config: Any) -> Any:
    """A configuration whose second of three layers differs."""
    return CONFIG_MAPPING[kind](**{**SMALL, "num_hidden_layers": 3, **config, "per_layer_config": {"1": layer}})


def test_a_layer_without_attention_is_no_llama() -> None:
    """The lean forward would compute it with attention."""
    torch.manual_seed(0)
    model = probed(AutoModelForCausalLM.from_config(mixed("llama", {"skip": ["self_attn"]})).eval(), "skipping")
    assert type(model.run).__name__ == "LlamaForCausalLM"
    assert_greedy(model, "draft", "topk-tree", "early-exit")


@pytest.mark.parametrize(
    ("kind", "layer", "more"),
    [
        ("llama", {"head_dim": 16}, {}),
        ("llama", {"num_key_value_heads": 1}, {}),
        ("llama", {"intermediate_size": 24}, {}),
        ("mistral", {"sliding_window": 3}, {"sliding_window": 6}),
        ("mistral", {"sliding_window": None}, {"sliding_window": 6}),
        ("qwen3", {"sliding_window": 3}, {"sliding_window": 6, "layer_types": ["sliding_attention"] * 3}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_what_no_layer_computes_is_refused_in_a_sentence(
    tmp_path: Path, kind: str, layer: dict[str, Any], more: dict[str, Any]
) -> None:
    """A value for each layer, of whatever key: transformers raises where one for all of them is read."""
    network(Case("", kind)).save_pretrained(tmp_path)
    mixed(kind, layer, **more).save_pretrained(tmp_path)
    with pytest.raises(DraftscopeError) as error:
        loaded(tmp_path)
    sentence = str(error.value)
    assert f"layers that differ in '{next(iter(layer))}'" in sentence or "of the same type that differ in" in sentence
    assert sentence.endswith("choose another model.")


@pytest.mark.parametrize("name", ["Gemma 4", "Gemma 3n"])
def test_the_first_layers_are_cut_where_one_embedding_has_the_inputs_of_all(name: str) -> None:
    """A stack trace: the embedding was reshaped by the number of layers that were left."""
    model = probed(network(NAMES[name]), name)
    assert_greedy(model, "early-exit")
    assert 0 < model.first_layers(1).kept_bytes(1) < model.first_layers(2).kept_bytes(1) == model.kept_bytes(1)
