"""The target's first layers as its draft: the same weights, the distribution that such a model has, and no byte stored
twice."""

from __future__ import annotations

import pytest
import torch
from transformers import LlamaForCausalLM

from draftscope import DraftscopeError
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.models.forward.emulated_size import EmulatedShape
from draftscope.models.forward.lean import LeanLlama
from draftscope.models.probe import probed
from tests.support.architectures import CASES, Case, network
from tests.support.models import letters, random_llama

TEXT = [1, 4, 2, 0, 3, 3, 1]


def from_scratch(network: LlamaForCausalLM, count: int) -> LlamaForCausalLM:
    """A model built with `count` layers, and given the big one's weights for them."""
    config = type(network.config)(**(network.config.to_dict() | {"num_hidden_layers": count, "layer_types": None}))
    small = LlamaForCausalLM(config)
    small.load_state_dict({k: v for k, v in network.state_dict().items() if k in small.state_dict()})
    return small.eval()


@torch.inference_mode()
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("lean", [True, False])
def test_its_logits_are_those_of_a_model_with_that_many_layers(count: int, lean: bool) -> None:
    target = probed(random_llama(7, 5, layers=3), "three")
    if not lean:
        target.run = target.network
    early = target.first_layers(count)
    tokens = torch.tensor([TEXT])
    got = early.forward(early.cache(1, 16), tokens, torch.arange(len(TEXT))[None])
    want = from_scratch(target.network, count)(tokens).logits
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)
    assert isinstance(early.run, LeanLlama) == lean
    assert early.layers == len(early.network.model.layers) == early.network.config.num_hidden_layers == count
    assert (target.layers, len(target.network.model.layers), target.network.config.num_hidden_layers) == (3, 3, 3)


def test_not_one_weight_is_stored_twice() -> None:
    target = probed(random_llama(7, 5, layers=3), "three")
    early = target.first_layers(1)
    own = {weight.untyped_storage().data_ptr() for weight in target.network.parameters()}
    assert {weight.untyped_storage().data_ptr() for weight in early.network.parameters()} <= own
    assert [id(layer) for layer in early.run._layers] == [id(target.run._layers[0])]
    assert early.run._head is target.run._head
    assert early.parameters < target.parameters


# `tests/models/test_hybrid.py` says what these say.
WITH_A_STATE = ("mamba2", "jamba", "qwen3_next", "qwen3_5", "qwen3_5_text", "lfm2")
PARTED = [case for case in CASES if case.takes != "nothing" and case.kind not in WITH_A_STATE]


@pytest.mark.parametrize("case", PARTED, ids=lambda case: case.name)
def test_layers_are_found_wherever_an_architecture_keeps_them(case: Case) -> None:
    engine = DecodingEngine(probed(network(case), case.name), None, letters(5))
    run = engine.decode("abca", "early-exit", gamma=2, exit_layer=1, max_new_tokens=6, raw=True)
    assert run.token_ids == engine.decode("abca", "plain", max_new_tokens=6, raw=True).token_ids
    assert run.metrics.num_draft_tokens > 0


def test_a_quarter_of_the_layers_where_none_is_named(pair: DecodingEngine) -> None:
    session = pair.start_batch([pair.encode("ab")], Settings.of(drafter="early-exit"), (0,))
    assert session.drafter._model.name == "byte-target, 1 of 2 layers"


def test_a_draft_that_exits_late_agrees_more(pair: DecodingEngine) -> None:
    deep = DecodingEngine(probed(random_llama(7, 258, layers=4), "four"), None, pair.tokenizer)
    shares = [
        deep.decode("abcab", "early-exit", exit_layer=k, temperature=1.0, max_new_tokens=120).metrics for k in (1, 3)
    ]
    assert shares[0].draft_acceptance_rate < shares[1].draft_acceptance_rate


@pytest.mark.parametrize("count", [2, 9])
def test_too_many_layers_are_one_sentence(pair: DecodingEngine, count: int) -> None:
    with pytest.raises(DraftscopeError, match=f"exit_layer = {count}: 'byte-target' has 2 layers; choose 1 to 1."):
        pair.decode("ab", "early-exit", exit_layer=count)


def test_a_target_whose_layers_cannot_be_used_is_refused_at_once(pair: DecodingEngine) -> None:
    one, heavy = probed(random_llama(7, 258, layers=1), "one"), probed(random_llama(7, 258), "heavy")
    heavy.emulate(EmulatedShape("small", 2, 48, 4, 2, 16, 96, 64))
    for target, reason in ((one, "the target has one layer"), (heavy, "an emulated size has no layers to part")):
        engine = DecodingEngine(target, None, pair.tokenizer)
        assert next(each.why_not for each in engine.drafters() if each.name == "early-exit") == reason
        with pytest.raises(DraftscopeError, match=f"'early-exit' cannot draft for '{target.name}': {reason}"):
            engine.decode("ab", "early-exit")


def test_a_network_bound_to_its_devices_is_refused() -> None:
    target = probed(random_llama(7, 5, layers=3), "three")
    target.network.model.forward = target.network.model.forward  # what a device map's hooks leave behind
    with pytest.raises(DraftscopeError, match="load the target on one device"):
        target.first_layers(1)
