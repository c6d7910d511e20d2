"""Numbers that are none: a temperature that fp32 cannot divide by, and logits with NaN or infinity in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from draftscope import DraftscopeError
from draftscope.base.common_settings import MIN_TEMPERATURE
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.models.model import Model

BROKEN = (float("nan"), float("inf"))
DRAFTERS = ("plain", "draft", "sampled-tree", "topk-tree", "ngram", "eagle3", "ssd", "cascade", "bandit")


@contextmanager
def spoilt(monkeypatch: pytest.MonkeyPatch, model: Model, number: float, after: int) -> Iterator[None]:
    """The model's logits of one token are `number` from its forward `after` on."""
    right, forwards = model.run, 0

    def run(*args: Any, **kwargs: Any) -> Any:
        nonlocal forwards
        forwards += 1
        out = right(*args, **kwargs)
        if forwards > after:
            out.logits[..., 3] = number
        return out

    with monkeypatch.context() as patch:
        patch.setattr(model, "run", run)
        yield


@pytest.mark.parametrize("drafter", ["plain", "draft", "topk-tree"])
@pytest.mark.parametrize("temperature", [1e-39, 5e-38, 1e-45, MIN_TEMPERATURE / 2])
def test_a_temperature_that_fp32_cannot_divide_by_is_refused(
    pair: DecodingEngine, drafter: str, temperature: float
) -> None:
    with pytest.raises(DraftscopeError, match=rf"temperature = {temperature}: .*choose 0 for greedy"):
        pair.decode("ab", drafter, temperature=temperature, max_new_tokens=8)


@pytest.mark.parametrize("drafter", ["draft", "sampled-tree", "topk-tree", "eagle3", "medusa"])
def test_the_smallest_temperature_decodes_as_greedy(pair: DecodingEngine, drafter: str) -> None:
    plain = pair.decode("ab", "plain", max_new_tokens=24).token_ids
    assert pair.decode("ab", drafter, temperature=MIN_TEMPERATURE, max_new_tokens=24).token_ids == plain


@pytest.mark.parametrize("number", BROKEN)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_a_broken_target_distribution_is_never_sampled(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, drafter: str, temperature: float, number: float
) -> None:
    with (
        spoilt(monkeypatch, pair.target, number, after=1),
        pytest.raises(DraftscopeError, match=r"target's distribution at temperature .* contains NaN or infinity"),
    ):
        pair.decode("ab", drafter, temperature=temperature, max_new_tokens=48)


@pytest.mark.parametrize("number", BROKEN)
@pytest.mark.parametrize("rule", ["block", "token", "lenient"])
@pytest.mark.parametrize("drafter", ["draft", "sampled-tree", "ssd"])
def test_a_broken_draft_distribution_is_never_sampled(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, drafter: str, rule: str, number: float
) -> None:
    assert pair.draft is not None
    own = {"rule": rule} if drafter != "sampled-tree" else {}
    with (
        spoilt(monkeypatch, pair.draft, number, after=1),
        pytest.raises(DraftscopeError, match="drafter's distribution at temperature 1 contains NaN or infinity"),
    ):
        pair.decode("ab", drafter, temperature=1.0, max_new_tokens=48, **own)


def test_nothing_of_the_broken_round_is_written(pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = pair.decode("ab", "plain", temperature=1.0, max_new_tokens=24).token_ids
    run = pair.start("ab", Settings.of(drafter="plain", temperature=1.0, max_new_tokens=24))
    with spoilt(monkeypatch, pair.target, torch.nan, after=6), pytest.raises(DraftscopeError):
        for _ in run.steps():
            pass
    assert 0 < len(run.token_ids) < 24
    assert run.token_ids == whole[: len(run.token_ids)]
