"""Probing a model: errors of the model's code mean 'not supported', errors of the engine's code are raised."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch

from draftscope import DraftscopeError
from draftscope.models import model as models
from draftscope.models import precise, probe
from draftscope.models.counter import ForwardCounter
from draftscope.models.probe import probed
from tests.support.architectures import CASES, network, takes
from tests.support.models import random_llama


def test_an_error_of_the_engine_is_raised_and_not_taken_for_missing_support(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "attention_mask", None)
    with pytest.raises(TypeError, match="NoneType"):
        probed(random_llama(1, 5), "llama")


def test_a_model_that_refuses_masks_supports_chains_and_the_reason_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    (falcon,) = (case for case in CASES if case.name == "Falcon, ALiBi")
    with caplog.at_level(logging.INFO, "draftscope"):
        assert not probed(network(falcon), "falcon").trees
    (record,) = caplog.records
    assert "'falcon' refused a probe" in record.message
    assert record.exc_info is not None and record.exc_info[0] is ValueError


def noisy() -> Any:
    """24 layers whose attention is nearly an argmax: in bfloat16 rounding turns it, and a right mask has an error of
    0.12, more than was taken for rounding."""
    model = network(CASES[0], num_hidden_layers=24)
    for name, weight in model.named_parameters():
        if "q_proj" in name:
            weight.data *= 10
    return model.bfloat16()


def without_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    original = models.attention_mask
    monkeypatch.setattr(
        models, "attention_mask", lambda table, reach, _, additive: original(table, reach, None, additive)
    )


def test_rounding_of_the_model_itself_does_not_refuse_trees() -> None:
    """As a real Gemma 3 270m in bfloat16, with right masks; this one was refused even for chains."""
    network = noisy()
    assert probe._in_tree(probed(network, "noisy")).error > probe.DOUBTFUL
    assert probed(network, "noisy").trees
    assert {weight.dtype for weight in network.parameters()} == {torch.bfloat16}


def test_an_ignored_mask_is_refused_however_large_the_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    without_mask(monkeypatch)
    assert not probed(noisy(), "noisy").trees


NAMES = [
    "Llama, SmolLM2",
    "Gemma 2",
    "Gemma 3",
    "Gemma 4",
    "GPT-2",
    "GPT-J",
    "Mixtral",
    "GPT-OSS",
    "DeepSeek-V3",
    "OPT",
]


@pytest.mark.parametrize("name", NAMES)
def test_in_doubt_masks_are_judged_in_fp32(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every kind of attention: with our masks, and without them."""
    (case,) = (case for case in CASES if case.name == name)
    monkeypatch.setattr(probe, "DOUBTFUL", -1.0)
    assert takes(case, torch.bfloat16) == "trees"
    monkeypatch.setattr(probe, "DOUBTFUL", 0.0)
    without_mask(monkeypatch)
    assert takes(case, torch.bfloat16) in ("chains", "nothing")


@pytest.mark.parametrize("name", ["Bloom", "Falcon, ALiBi", "GPT-Neo"])
def test_in_doubt_chains_are_judged_in_fp32(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (case,) = (case for case in CASES if case.name == name)
    monkeypatch.setattr(probe, "DOUBTFUL", -1.0)
    assert takes(case, torch.bfloat16) == "chains"


def test_without_memory_for_fp32_a_doubt_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precise, "fits", lambda *_: False)
    with pytest.raises(DraftscopeError, match="could not be trusted"):
        probed(noisy(), "noisy")


def test_logits_that_are_no_numbers_are_refused() -> None:
    broken = noisy()
    broken.lm_head.weight.data[3] = torch.nan
    with pytest.raises(DraftscopeError, match="could not be trusted"):
        probed(broken, "broken")


def test_probing_is_not_counted() -> None:
    assert probed(random_llama(1, 5), "llama").counter.forwards == 0


def test_widths_are_recorded_only_inside_a_widths_block() -> None:
    counter = ForwardCounter()
    counter.add([7])
    with counter.widths() as outer:
        counter.add([1])
        with counter.widths() as inner, counter.counted_as([2, 3]):
            counter.add([9])
    counter.add([4] * 1000)
    assert (outer, inner, counter.forwards) == ([1, 2, 3], [2, 3], 1004)
    assert not any(isinstance(each, list) and each for each in vars(counter).values())
