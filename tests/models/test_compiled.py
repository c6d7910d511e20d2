"""The compiled forward equals the lean one: the same logits up to rounding, for any number of rows."""

from __future__ import annotations

from copy import copy
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

from draftscope.decode.lab import Lab
from draftscope.models.forward import compiled
from draftscope.models.forward.compiled import CompiledLlama, compile_if_faster
from draftscope.models.forward.lean import LeanLlama
from draftscope.models.forward.native import NativeDecoder
from draftscope.models.model import ForwardMode, Model
from draftscope.models.probe import probed
from tests.conftest import letters, random_llama

pytestmark = pytest.mark.slow  # torch compiles for most of a minute
needs_compiler = pytest.mark.skipif(compiled.compiler() is None, reason="torch compiles with g++ or clang++")


@pytest.fixture(scope="module")
def both() -> tuple[Model, Model]:
    """A small model with the lean forward, and compiled."""
    lean = probed(random_llama(7, 50, layers=1), "lean")
    fast = copy(lean)
    fast.run = CompiledLlama(lean.run, lean.network)
    return lean, fast


def read(model: Model, rows: int, prompt: int = 20) -> torch.Tensor:
    """Logits of a chain after a prompt."""
    cache = model.cache(1, prompt + rows)
    model.read(cache, [[3, 1, 4, 1, 5] * (prompt // 5)])
    return model.forward(cache, torch.arange(2, 2 + rows)[None], torch.arange(rows)[None])


@needs_compiler
def test_it_is_compiled_once_for_all_sizes(both: tuple[Model, Model]) -> None:
    before = counters["stats"]["unique_graphs"]
    for rows, prompt in ((1, 20), (3, 5), (4, 15), (5, 40), (9, 125), (16, 80)):
        expected, actual = (read(model, rows, prompt) for model in both)
        torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)
    assert counters["stats"]["unique_graphs"] == before


@needs_compiler
def test_the_compiled_forward_really_runs(both: tuple[Model, Model], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("the lean forward")

    lean, fast = both
    cache = fast.cache(1, 30)
    fast.read(cache, [[3, 1, 4]])
    monkeypatch.setattr(LeanLlama, "_attention", fail)
    fast.forward(cache, torch.tensor([[5]]), torch.zeros((1, 1), dtype=torch.long))
    with pytest.raises(AssertionError, match="lean"):
        lean.forward(cache, torch.tensor([[5]]), torch.zeros((1, 1), dtype=torch.long))


@needs_compiler
def test_logits_of_a_tree_and_hidden_states_are_equal(both: tuple[Model, Model]) -> None:
    sees = torch.tensor([[[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [1, 1, 0, 1, 0], [1, 0, 1, 0, 1]]]).bool()
    depth, results = torch.tensor([[0, 1, 1, 2, 2]]), []
    for model in both:
        cache = model.cache(1, 40)
        model.read(cache, [[3, 1, 4, 1, 5]])
        logits, features = model.forward_with_features(cache, torch.arange(2, 7)[None], depth, sees, (0, 1))
        assert features is not None
        cache.keep(torch.tensor([[0, 2, 4]]), torch.tensor([3]), 8)
        after = model.forward(cache, torch.tensor([[9]]), torch.zeros((1, 1), dtype=torch.long))
        results.append((logits, features, after))
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


@needs_compiler
def test_batches_and_the_first_layers_use_the_lean_forward(both: tuple[Model, Model]) -> None:
    results = []
    for model in both:
        cache = model.cache(2, 20)
        model.read(cache, [[3, 1, 4], [5, 9]])
        results.append(model.forward(cache, torch.tensor([[5], [6]]), torch.zeros((2, 1), dtype=torch.long)))
    assert torch.equal(*results)
    run = both[1].run.first(1)
    assert run._stack is None and both[1].run._stack is not None


def fresh() -> Model:
    return probed(random_llama(7, 50, layers=1), "small")


@needs_compiler
@pytest.mark.parametrize(
    ("times", "outcome"),
    [((2.0, 1.0), "2.00 times as fast"), ((1.0, 2.0), "no speedup (1.00 to 2.00 ms); kept eager")],
)
def test_the_compiled_forward_is_kept_only_if_it_is_faster(
    both: tuple[Model, Model], times: tuple[float, float], outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "CompiledLlama", lambda *_: both[1].run)
    monkeypatch.setattr(compiled, "_timed", lambda *_: list(times))
    model = fresh()
    assert outcome in compile_if_faster(model)
    assert (model.forward_mode is ForwardMode.COMPILED) == (times[0] > times[1])


@needs_compiler
def test_both_forwards_are_timed(both: tuple[Model, Model]) -> None:
    lean, fast = compiled._timed(copy(both[1]), both[0].run, both[1].run)
    assert lean > 0 and fast > 0


def test_the_reason_is_given_if_a_model_cannot_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fresh()
    monkeypatch.setattr(compiled, "compiler", lambda: None)
    assert "there is no C++ compiler; install g++" in compile_if_faster(model)
    monkeypatch.setattr(compiled, "compiler", lambda: "/usr/bin/g++")
    monkeypatch.setattr(torch, "compile", lambda *_, **__: lambda *_: 1 / 0)
    assert "cannot be compiled: division by zero" in compile_if_faster(model)
    assert isinstance(model.run, LeanLlama) and model.forward_mode is ForwardMode.EAGER
    model.run = model.network
    assert "only small Llama-shaped models" in compile_if_faster(model)
    model.run = NativeDecoder.__new__(NativeDecoder)
    assert compile_if_faster(model) == "'small' was not compiled by torch: it runs as a program that numba compiled."


@needs_compiler
def test_a_run_is_marked_as_compiled(both: tuple[Model, Model]) -> None:
    lean, fast = (Lab(model, None, letters(50)) for model in both)
    runs = [lab.decode("abc", "ngram", gamma=3, max_new_tokens=30) for lab in (lean, fast)]
    assert runs[0].token_ids == runs[1].token_ids
    assert [run.events[0].models[0].compiled for run in runs] == [False, True]
