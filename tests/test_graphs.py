"""Graphs on a CPU: recorded as the operations that ran, with every tensor and number of that moment baked in.

That is what a CUDA graph does too, so a replay that forgot to copy an input, or a number of Python's that changes from
round to round, gives other tokens here as it would there.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from draftscope.ballast import Shape
from draftscope.graphs import Graphs, Outputs
from draftscope.lab import Lab
from draftscope.model import Model
from tests.conftest import random_llama
from tests.test_loop import DRAFTERS, PROMPT


class Recorder:
    """Records with torch's own tracer and counts what it recorded and replayed."""

    def __init__(self) -> None:
        self.recorded = self.replayed = 0

    def __call__(self, forward: Callable[[], Outputs]) -> tuple[Outputs, Callable[[], object]]:
        self.recorded += 1
        outputs = tuple(each.clone() for each in forward())
        traced = make_fx(forward)()

        def replay() -> None:
            self.replayed += 1
            for own, value in zip(outputs, traced(), strict=True):
                own.copy_(value)

        return outputs, replay


def model(seed: int = 0, **config: Any) -> Model:
    return Model(random_llama(seed, vocabulary=64, **config), "target")


def recorded(plain: Model) -> tuple[Model, Recorder]:
    """The same weights with graphs."""
    recorder = Recorder()
    own = Model(plain.network, "target")
    own.record_graphs(recorder)
    return own, recorder


def texts(model: Model, batch: int) -> list[torch.Tensor]:
    """Logits of two sessions one after the other: chains, of which sequences keep unlike numbers of rows, and trees."""
    found = []
    for session in range(2):
        cache = model.cache(batch, 64)
        model.read(cache, [[1, 2, 3], [4, 5]][:batch])
        for turn in range(6):
            rows = torch.tensor([[5 + turn, 6, session], [7, 8 + turn, 9]])[:batch]
            found.append(model.forward(cache, rows, torch.arange(3).expand(batch, -1)))
            cache.keep_first(torch.tensor([1 + turn % 3, 3 - turn % 2])[:batch], 6 + 3 * turn)
        sees = torch.tensor([[[1, 0, 0], [1, 1, 0], [1, 0, 1]]], dtype=torch.bool).expand(batch, -1, -1)
        for token in (10, 11):  # the second time over what the first has kept
            depth = torch.tensor([[0, 1, 1]]).expand(batch, -1)
            found.append(model.forward(cache, torch.tensor([[token, 12, 13]]).expand(batch, -1), depth, sees))
            cache.keep(torch.tensor([[0, 2]]).expand(batch, -1), torch.full((batch,), 2), 30)
        del cache
        gc.collect()
    return found


@pytest.mark.parametrize("batch", [1, 2])
def test_a_replay_gives_the_bits_of_the_eager_forward(batch: int) -> None:
    plain = model()
    other, recorder = recorded(plain)
    for one, two in zip(texts(plain, batch), texts(other, batch), strict=True):
        assert torch.equal(one, two)
    assert other.graphs is not None and not other.graphs.off
    assert recorder.recorded == 1  # chain or tree: the same widths
    assert recorder.replayed == 16  # once to compare, then all forwards but the first


@pytest.mark.parametrize("drafter", ["plain", "draft", "sampled-tree", "eagle3", "early-exit", "lookahead"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_run_is_the_same_with_graphs(pair: Lab, drafter: str, temperature: float) -> None:
    assert pair.draft is not None
    target, of_target = recorded(pair.target)
    draft, of_draft = recorded(pair.draft)
    lab = Lab(target, draft, pair.tokenizer, pair.heads)
    lab.calibration = pair.calibration
    wish = {**DRAFTERS[drafter], "max_new_tokens": 24, "temperature": temperature, "seed": 3}
    assert lab.decode(PROMPT, drafter, **wish).token_ids == pair.decode(PROMPT, drafter, **wish).token_ids
    assert of_target.replayed > of_target.recorded or drafter == "early-exit"
    assert (of_draft.replayed > 0) == (drafter in ("draft", "sampled-tree"))
    assert target.counter.widths == pair.target.counter.widths[-len(target.counter.widths) :]


def test_what_a_drafter_reads_is_part_of_what_was_recorded(pair: Lab) -> None:
    target, recorder = recorded(pair.target)
    lab = Lab(target, None, pair.tokenizer, pair.heads)
    wish = {"gamma": 2, "max_new_tokens": 12}
    tokens = [lab.decode(PROMPT, drafter, **wish).token_ids for drafter in ("ngram", "eagle3", "ngram")]
    assert tokens[0] == tokens[1] == tokens[2]
    assert recorder.recorded >= 2


def test_ballast_is_recorded_with_the_model_that_carries_it() -> None:
    shape = Shape("small", 2, 32, 4, 2, 8, 48, 64)
    plain, other = model(), model()
    for each in (plain, other):
        torch.manual_seed(0)
        each.weigh_down(shape)
    recorder = Recorder()
    other.record_graphs(recorder)
    for one, two in zip(texts(plain, 2), texts(other, 2), strict=True):
        assert torch.equal(one, two)
    assert recorder.replayed == 16


def test_ballast_taken_on_later_is_not_left_out_of_what_was_recorded() -> None:
    other, _ = recorded(model())
    texts(other, 1)
    torch.manual_seed(0)
    other.weigh_down(Shape("small", 2, 32, 4, 2, 8, 48, 64))
    cache = other.cache(1, 64)
    other.read(cache, [[1, 2, 3]])
    other.forward(cache, torch.tensor([[5, 6, 0]]), torch.arange(3)[None])
    assert all(layer.is_initialized and layer.keys.shape[2] == cache.table.capacity for layer in cache.side)
    assert all(bool(layer.keys[:, :, 3:6].any()) for layer in cache.side)  # its rows were written by this forward


def test_two_texts_at_a_time_have_memory_of_their_own() -> None:
    other, _ = recorded(model())
    other.cache(1, 64)  # leaves memory behind, which one of them gets
    caches = [other.cache(1, 64) for _ in range(2)]
    alone = other.cache(1, 64)
    for cache, prompt in zip([*caches, alone], ([1, 2, 3], [9, 8, 7], [1, 2, 3]), strict=True):
        other.read(cache, [prompt])
    found = []
    for turn in range(3):
        for cache in [*caches, alone]:
            found.append(other.forward(cache, torch.tensor([[4 + turn]]), torch.zeros((1, 1), dtype=torch.long)))
            cache.keep_first(torch.ones(1, dtype=torch.long), 4 + turn)
    assert all(torch.equal(found[i], found[i + 2]) for i in (0, 3, 6))
    assert not torch.equal(found[3], found[4])


def test_logits_outlive_the_next_replay() -> None:
    other, _ = recorded(model())
    cache = other.cache(1, 64)
    other.read(cache, [[1, 2, 3]])
    kept = []
    for token in (4, 5, 6):
        logits = other.forward(cache, torch.tensor([[token]]), torch.zeros((1, 1), dtype=torch.long))
        kept.append((logits, logits.clone()))
        cache.keep_first(torch.ones(1, dtype=torch.long), token)
    assert all(torch.equal(logits, then) for logits, then in kept)


def refuses(forward: Callable[[], Outputs]) -> tuple[Outputs, Callable[[], object]]:
    raise RuntimeError("operation not permitted when stream is capturing\nand more")


def lies(forward: Callable[[], Outputs]) -> tuple[Outputs, Callable[[], object]]:
    outputs = tuple(each + 1 for each in forward())
    return outputs, lambda: None


@pytest.mark.parametrize(
    ("record", "why"), [(refuses, "not permitted when stream is capturing)"), (lies, "other bits")]
)
def test_what_cannot_be_recorded_stays_eager_and_says_why(record: Any, why: str) -> None:
    plain = model()
    other = Model(plain.network, "target")
    other.record_graphs(record)
    for one, two in zip(texts(plain, 2), texts(other, 2), strict=True):
        assert torch.equal(one, two)
    assert other.graphs is not None and why in other.graphs.off and "\n" not in other.graphs.off


def test_memory_of_ended_sessions_is_bounded() -> None:
    graphs = Graphs(Recorder())
    for size in range(1, 9):
        graphs.cache(2, size, 64, torch.device("cpu"), 0)
    gc.collect()
    assert len(graphs._free) == 4
