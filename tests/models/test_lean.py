"""The lean forward equals the transformers model: the same logits and weights."""

from __future__ import annotations

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from draftscope.decode.engine import DecodingEngine
from draftscope.models.forward.lean import LeanLlama, covers
from draftscope.models.model import Model
from draftscope.models.probe import probed
from draftscope.verify.tree import full
from tests.support.models import random_llama


def both(network: LlamaForCausalLM) -> tuple[Model, Model]:
    """The model with its transformers modules, and with the lean forward."""
    by_modules, lean = probed(network, "modules"), probed(network, "lean")
    by_modules.run, lean.run = network, LeanLlama(network)
    return by_modules, lean


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1,), (1, 1), (3,), (1, 1, 1, 1), (3, 2)])
def test_logits_equal_those_of_the_modules(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """A prefill of different lengths, a tree, a kept path and one more row."""
    form = full(shape, 2)
    tokens = torch.randint(2, 50, (2, form.nodes), generator=torch.Generator().manual_seed(1))
    seen = []
    for model in both(random_llama(7, 50).to(dtype)):
        cache = model.cache(2, 32)
        model.read(cache, [[3, 1, 4, 1, 5], [9, 2]])
        logits = model.forward(cache, tokens, form.depth[:, 1:] - 1, form.ancestors[:, 1:, 1:])
        cache.keep(torch.zeros((2, 1), dtype=torch.long), torch.ones(2, dtype=torch.long), 6)
        after = model.forward(cache, torch.tensor([[7], [8]]), torch.zeros((2, 1), dtype=torch.long))
        seen.append(torch.cat([logits, after], 1).float())
    loose = {"atol": 1e-5, "rtol": 1e-5} if dtype == torch.float32 else {"atol": 0.1, "rtol": 0.05}
    torch.testing.assert_close(*seen, **loose)


@pytest.mark.parametrize("kind", ["mistral", "qwen2", "qwen3"])
def test_other_models_of_that_shape_are_covered_too(kind: str) -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    heads = {"num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 256}
    config = CONFIG_MAPPING[kind](vocab_size=50, initializer_range=0.3, **sizes, **heads)
    network = AutoModelForCausalLM.from_config(config).eval()
    for weight in network.parameters():
        if weight.dim() == 1:  # no bias is 0, no norm 1
            weight.data += 0.3 * torch.randn_like(weight)
    assert covers(network)
    prompt, offsets = torch.randint(0, 50, (1, 12)), torch.arange(12)[None]
    expected, actual = (m.forward(m.cache(1, 64), prompt, offsets) for m in both(network))
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("rope", ["default", "linear", "llama3"])
def test_rotary_tables_grow_and_follow_the_config(rope: str) -> None:
    extra = {
        "linear": {"factor": 2.0},
        "llama3": {
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    }.get(rope, {})
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=50,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.3,
        rope_parameters={"rope_theta": 500.0, "rope_type": rope, **extra},
    )
    by_modules, lean = both(LlamaForCausalLM(config))
    for length in (4, 150):
        prompt = torch.randint(0, 50, (1, length))
        offsets = torch.arange(length)[None]
        expected, actual = (m.forward(m.cache(1, 200), prompt, offsets) for m in (by_modules, lean))
        torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("rows", [1, 3, 4, 6])
def test_attention_gets_whole_vectors_and_at_least_four_queries(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the bits of a row would depend on the number of rows, and greedy runs in 16 bits would diverge."""
    model = probed(random_llama(7, 50), "m")
    cache = model.cache(1, 40)
    model.read(cache, [[3, 1, 4]])
    seen: list[tuple[int, int]] = []
    original = torch.nn.functional.scaled_dot_product_attention

    def watched(query: torch.Tensor, keys: torch.Tensor, *rest: object, **named: object) -> torch.Tensor:
        seen.append((query.shape[2], keys.shape[2]))
        return original(query, keys, *rest, **named)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", watched)
    model.forward(cache, torch.full((1, rows), 5), torch.arange(rows)[None])
    assert len(seen) == model.layers and all(queries >= 4 and keys == 16 for queries, keys in seen)


def test_weights_are_shared_with_the_transformers_model(pair: DecodingEngine) -> None:
    network = random_llama(3, 258)
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    LeanLlama(network)
    for name, weight in network.state_dict().items():
        assert weight.equal(before[name]), name
    attention = network.model.layers[0].self_attn
    assert attention.q_proj.weight.untyped_storage().data_ptr() == attention.v_proj.weight.untyped_storage().data_ptr()


def test_unsupported_variants_keep_their_modules() -> None:
    network = random_llama(1, 5)
    assert covers(network)
    network.model.layers[0].self_attn.o_proj.bias = torch.nn.Parameter(torch.ones(32))
    assert not covers(network)
    network = random_llama(1, 5)
    network.set_attn_implementation("eager")
    assert not covers(network)
