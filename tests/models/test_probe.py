"""Probing a model: errors of the model's code mean 'not supported', errors of the engine's code are raised."""

from __future__ import annotations

import logging

import pytest

from draftscope.models import model as models
from draftscope.models.counter import ForwardCounter
from draftscope.models.probe import probed
from tests.programs.architectures import CASES, network
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
