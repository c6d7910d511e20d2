"""Graphs, tested on a CPU: the operations that ran are recorded, with all tensors and Python numbers baked in.

A CUDA graph does the same. A replay that does not copy an input, or that depends on a Python number that changes from
round to round, therefore gives wrong tokens here as it would there.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from copy import deepcopy
from itertools import product
from typing import Any

import pytest
import torch

from draftscope.decode import session
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.models.forward.emulated_size import EmulatedShape
from draftscope.models.forward.graphs import Graphs, Outputs
from draftscope.models.model import Model
from draftscope.models.probe import probed
from draftscope.verify import drawing
from tests.decode.test_loop import DRAFTERS, PROMPT
from tests.support.models import random_llama
from tests.support.quick import quick
from tests.support.tape import Recorder


@pytest.fixture(autouse=True)
def tensors_alone_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a card: a tape records no loops."""
    monkeypatch.setattr(drawing, "loops", lambda: None)


@pytest.fixture(autouse=True)
def _no_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """With graphs, finished sequences stay in the batch; here also without graphs, so that the two can be compared."""
    monkeypatch.setattr(session, "COMPACT_AT", 2.0)


def model(seed: int = 0, **config: Any) -> Model:
    return probed(random_llama(seed, vocabulary=64, **config), "target")


def recorded(plain: Model) -> tuple[Model, Recorder]:
    """The same weights with graphs."""
    recorder = Recorder()
    with_graphs = probed(plain.network, "target")
    with_graphs.record_graphs(recorder)
    return with_graphs, recorder


def texts(model: Model, batch: int) -> list[torch.Tensor]:
    """Logits of two consecutive sessions, of chains of which sequences keep different numbers of rows, and of trees."""
    found = []
    for which in range(2):
        cache = model.cache(batch, 64)
        model.read(cache, [[1, 2, 3], [4, 5]][:batch])
        for turn in range(6):
            rows = torch.tensor([[5 + turn, 6, which], [7, 8 + turn, 9]])[:batch]
            found.append(model.forward(cache, rows, torch.arange(3).expand(batch, -1)))
            cache.keep_first(torch.tensor([1 + turn % 3, 3 - turn % 2])[:batch], 6 + 3 * turn)
        sees = torch.tensor([[[1, 0, 0], [1, 1, 0], [1, 0, 1]]], dtype=torch.bool).expand(batch, -1, -1)
        for token in (10, 11):  # the second tree follows the path kept from the first
            depth = torch.tensor([[0, 1, 1]]).expand(batch, -1)
            found.append(model.forward(cache, torch.tensor([[token, 12, 13]]).expand(batch, -1), depth, sees))
            cache.keep(torch.tensor([[0, 2]]).expand(batch, -1), torch.full((batch,), 2), 30)
        del cache
        gc.collect()
    return found


def test_the_recorder_bakes_what_a_cuda_graph_bakes() -> None:
    """Memory addresses and Python numbers are fixed, and values must not be read while recording."""
    given, number = torch.tensor([1.0, 2.0]), 3.0
    (found,), replay = Recorder()(lambda: ((given.view(2, 1) * number).squeeze(1).add_(1.0),))
    given.copy_(torch.tensor([5.0, 6.0]))
    number = 7.0
    assert found.tolist() == [4.0, 7.0]
    replay()
    assert found.tolist() == [16.0, 19.0]
    for read in (lambda: given.sum().item(), lambda: given[given > 1.0], given.nonzero, lambda: bool(given[0] > 1.0)):
        with pytest.raises(RuntimeError, match="reads a value in between"):
            Recorder()(lambda read=read: (read(),))


@pytest.mark.parametrize("batch", [1, 2])
def test_a_replay_gives_the_same_bits_as_the_eager_forward(batch: int) -> None:
    plain = model()
    other, recorder = recorded(plain)
    for one, two in zip(texts(plain, batch), texts(other, batch), strict=True):
        assert torch.equal(one, two)
    assert other.graphs is not None and not other.graphs.off
    assert recorder.recorded == 1  # chains and trees have the same shapes
    assert recorder.replayed == 15  # once to compare, then for all forwards but the first two


@pytest.mark.parametrize(
    ("drafter", "temperature"),
    quick(
        product(("plain", "draft", "sampled-tree", "eagle3", "early-exit", "lookahead"), (0.0, 1.0)), ("eagle3", 1.0)
    ),
)
def test_a_run_is_the_same_with_graphs(pair: DecodingEngine, drafter: str, temperature: float) -> None:
    assert pair.draft is not None
    target, of_target = recorded(pair.target)
    draft, of_draft = recorded(pair.draft)
    engine = DecodingEngine(target, draft, pair.tokenizer, pair.heads)
    engine.calibration = pair.calibration
    settings = {**DRAFTERS[drafter], "max_new_tokens": 24, "temperature": temperature, "seed": 3}
    with target.counter.widths() as with_graphs, pair.target.counter.widths() as eager:
        assert (
            engine.decode(PROMPT, drafter, **settings).token_ids == pair.decode(PROMPT, drafter, **settings).token_ids
        )
    assert with_graphs == eager
    assert of_target.replayed > of_target.recorded or drafter == "early-exit"
    assert (of_draft.replayed > 0) == (drafter in ("draft", "sampled-tree"))


OPTIONS: list[dict[str, Any]] = [
    {"drafter": "draft", "gamma": 4, "temperature": 1.0},
    {"drafter": "draft", "gamma": 4, "temperature": 0.0},
    {"drafter": "draft", "gamma": 4, "temperature": 1.0, "top_k": 3},
    {"drafter": "sampled-tree", "shape": (3, 2, 2), "temperature": 1.0},
    {"drafter": "topk-tree", "shape": (3, 2, 2), "temperature": 1.0},
    {"drafter": "draft", "gamma": 4, "temperature": 1.0},
]


def written(
    engine: DecodingEngine, options: dict[str, Any], prompts: list[list[int]]
) -> tuple[list[list[int]], list[torch.Tensor]]:
    """The tokens and the draft distributions; tokens alone say little about an untrained draft."""
    settings = Settings(**options, max_new_tokens=16, seed=len(prompts))
    decoding = engine.start_batch(prompts, settings, tuple(range(len(prompts))))
    distributions = [step.tree.distributions for step in decoding.steps() if step.tree.distributions is not None]
    tokens = [transcript.tokens for transcript in decoding.transcripts]
    del decoding
    gc.collect()  # so that the next session reuses the memory and its graphs
    return tokens, distributions


def assert_same(
    one: tuple[list[list[int]], list[torch.Tensor]], two: tuple[list[list[int]], list[torch.Tensor]]
) -> None:
    assert one[0] == two[0]
    torch.testing.assert_close(one[1], two[1], rtol=1e-4, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("prompts", [[[5, 6, 7]], [[5, 6, 7], [8, 9], [5, 6, 7, 8]], [[5, 6, 7, 8] * 60]])
def test_a_draft_loop_is_one_graph(pair: DecodingEngine, prompts: list[list[int]]) -> None:
    """Sessions of one engine share graphs, but a graph must not be replayed for other settings or widths."""
    assert pair.draft is not None
    draft, recorder = recorded(pair.draft)
    engine = DecodingEngine(pair.target, draft, pair.tokenizer)
    with draft.counter.widths() as with_graphs, pair.draft.counter.widths() as eager:
        for options in OPTIONS if len(prompts[0]) < 9 else OPTIONS[:1]:
            assert_same(written(engine, options, prompts), written(pair, options, prompts))
    assert with_graphs == eager
    assert draft.graph_state == "on"
    assert recorder.replayed < len(with_graphs) / 2


RAGGED = [[5, 6, 7], [8], [5, 6, 7, 8]]
SAMPLINGS: list[dict[str, Any]] = [{"temperature": 1.0}, {"temperature": 0.0}, {"temperature": 1.0, "top_k": 3}]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("drafter", "prompts"),
    [("eagle3", [[8]]), ("eagle3", [[5, 6, 7, 8] * 60])]
    + [(drafter, RAGGED) for drafter in ("eagle", "eagle3", "mtp", "eagle3-sequoia", "eagle3-sampled-tree")],
)
def test_a_loop_of_a_head_is_one_graph(pair: DecodingEngine, drafter: str, prompts: list[list[int]]) -> None:
    head = deepcopy(pair.heads[drafter.split("-")[0]])
    recorder = Recorder()
    head.network.record_graphs(recorder)
    engine = DecodingEngine(pair.target, None, pair.tokenizer, {drafter.split("-")[0]: head})
    engine.calibration = pair.calibration
    for options in SAMPLINGS if prompts is RAGGED else SAMPLINGS[:1]:
        settings = {"drafter": drafter, "gamma": 3, "tree_nodes": 6, "tree_depth": 3, **options}
        before = recorder.replayed
        one = written(engine, settings, prompts)
        assert_same(one, written(pair, settings, prompts))
        assert len(one[1]) - 8 <= recorder.replayed - before  # four shapes, each recorded when it comes again
    assert head.network.graphs is not None and not head.network.graphs.only_forwards


RULES: list[dict[str, Any]] = [
    {"rule": "block", "temperature": 1.0},
    {"rule": "token", "temperature": 1.0},
    {"rule": "block", "temperature": 1.0, "top_p": 0.5},
    {"rule": "block", "temperature": 0.0},
    {"rule": "typical", "temperature": 1.0},
    {"rule": "lenient", "temperature": 1.0},
    {"rule": "lenient", "temperature": 1.0, "lenience": 0.9},
    {"rule": "top-k", "temperature": 1.0, "agreement": 9},
    {"rule": "top-k", "temperature": 1.0, "agreement": 2},
    {"rule": "block", "temperature": 1.0},
]
NO_RULES = [RULES[0], RULES[2], RULES[3], RULES[0]]  # rules are for drawn chains


def verified(
    engine: DecodingEngine, drafter: str, options: dict[str, Any]
) -> tuple[list[list[int]], list[tuple[torch.Tensor, ...]]]:
    """The tokens, and all tensors of the verifications."""
    settings = Settings(drafter=drafter, gamma=3, max_new_tokens=16, **options)
    decoding = engine.start_batch([[5, 6, 7, 5, 6], [8, 9]], settings, (0, 1))
    tensors = [tuple(x for x in (step.p, *step.verification.parts) if x is not None) for step in decoding.steps()]
    tokens = [transcript.tokens for transcript in decoding.transcripts]
    del decoding
    gc.collect()
    return tokens, tensors


@pytest.mark.parametrize("drafter", quick(["draft", "ngram", "plain"], "ngram"))
def test_a_verification_is_one_graph(pair: DecodingEngine, drafter: str) -> None:
    target, recorder = recorded(pair.target)
    engine = DecodingEngine(target, pair.draft, pair.tokenizer)
    rules = RULES if drafter == "draft" else NO_RULES
    for options in rules:
        one, two = verified(engine, drafter, options), verified(pair, drafter, options)
        assert one[0] == two[0]
        torch.testing.assert_close(one[1], two[1], rtol=1e-4, atol=1e-7)
    assert target.graph_state == "on"
    forwards = target.counter.forwards - len(rules)  # without those of the prompts
    assert recorder.replayed > 0.65 * forwards  # one a round, each shape but for its first use


def test_if_a_loop_cannot_be_recorded_its_forwards_still_are(pair: DecodingEngine) -> None:
    assert pair.draft is not None
    recorder = Recorder()

    def of_one_forward(forward: Callable[[], Outputs]) -> tuple[Outputs, Callable[[], object]]:
        before = draft.counter.forwards
        forward()
        if draft.counter.forwards > before:
            raise RuntimeError("a read in between")
        return recorder(forward)

    draft = probed(pair.draft.network, "draft")
    draft.record_graphs(of_one_forward)
    engine = DecodingEngine(pair.target, draft, pair.tokenizer)
    assert_same(written(engine, OPTIONS[0], [[5, 6, 7]]), written(pair, OPTIONS[0], [[5, 6, 7]]))
    assert draft.graph_state == "on, single forwards only: it cannot be recorded (a read in between)"
    assert recorder.replayed > 10


def test_graphs_with_and_without_features_are_distinct(pair: DecodingEngine) -> None:
    target, recorder = recorded(pair.target)
    engine = DecodingEngine(target, None, pair.tokenizer, pair.heads)
    settings = {"gamma": 2, "max_new_tokens": 12}
    tokens = [engine.decode(PROMPT, drafter, **settings).token_ids for drafter in ("ngram", "eagle3", "ngram")]
    assert tokens[0] == tokens[1] == tokens[2]
    assert recorder.recorded >= 2


def test_an_emulated_size_is_recorded_with_its_model() -> None:
    shape = EmulatedShape("small", 2, 32, 4, 2, 8, 48, 64)
    plain, other = model(), model()
    for each in (plain, other):
        torch.manual_seed(0)
        each.emulate(shape)
    recorder = Recorder()
    other.record_graphs(recorder)
    for one, two in zip(texts(plain, 2), texts(other, 2), strict=True):
        assert torch.equal(one, two)
    assert recorder.replayed == 15


def test_emulating_a_size_discards_existing_graphs() -> None:
    other, _ = recorded(model())
    texts(other, 1)
    torch.manual_seed(0)
    other.emulate(EmulatedShape("small", 2, 32, 4, 2, 8, 48, 64))
    cache = other.cache(1, 64)
    other.read(cache, [[1, 2, 3]])
    other.forward(cache, torch.tensor([[5, 6, 0]]), torch.arange(3)[None])
    assert all(layer.is_initialized and layer.keys.shape[2] == cache.table.capacity for layer in cache.side)
    assert all(bool(layer.keys[:, :, 3:6].any()) for layer in cache.side)  # its rows were written by this forward


def test_concurrent_texts_have_separate_memory() -> None:
    other, _ = recorded(model())
    other.cache(1, 64)  # leaves memory that one of the following caches reuses
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


def test_logits_are_not_overwritten_by_the_next_replay() -> None:
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


def differs(forward: Callable[[], Outputs]) -> tuple[Outputs, Callable[[], object]]:
    outputs = tuple(each + 1 for each in forward())
    return outputs, lambda: None


def does_nothing(forward: Callable[[], Outputs]) -> tuple[Outputs, Callable[[], object]]:
    """As a capture of one device's stream, where the model runs on another device."""
    return forward(), lambda: None


@pytest.mark.parametrize(
    ("record", "why"),
    [(refuses, "not permitted when stream is capturing)"), (differs, "other bits"), (does_nothing, "other bits")],
)
def test_a_model_that_cannot_be_recorded_stays_eager_with_a_reason(record: Any, why: str) -> None:
    plain = model()
    other = probed(plain.network, "target")
    other.record_graphs(record)
    for one, two in zip(texts(plain, 2), texts(other, 2), strict=True):
        assert torch.equal(one, two)
    assert other.graphs is not None and why in other.graphs.off and "\n" not in other.graphs.off


def test_memory_kept_from_ended_sessions_is_bounded() -> None:
    graphs = Graphs(Recorder())
    for size in range(1, 9):
        graphs.cache(2, size, 64, torch.device("cpu"), 0)
    gc.collect()
    assert len(graphs._free) == 4


@pytest.mark.parametrize("with_graphs", ["target", "draft", "eagle3"])
def test_finished_sequences_stay_in_the_batch_if_there_are_graphs(
    pair: DecodingEngine, with_graphs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "COMPACT_AT", 0.0)
    head = deepcopy(pair.heads["eagle3"])
    target, draft = probed(pair.target.network, "target"), probed(pair.draft.network, "draft")
    engine = DecodingEngine(target, draft, pair.tokenizer, {"eagle3": head})
    models = {"target": target, "draft": draft, "eagle3": head.network}
    drafter = "eagle3" if with_graphs == "eagle3" else "draft"
    for graphs in (False, True):
        if graphs:
            models[with_graphs].record_graphs(Recorder())
        settings = Settings(drafter=drafter, gamma=3, max_new_tokens=9, temperature=1.0)
        steps = engine.start_batch([[5, 6, 7], [8, 9], [4]], settings, (0, 1, 2), ends=False).steps()
        assert (min(len(step.rows) for step in steps) == 3) == graphs
