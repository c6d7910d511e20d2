"""EmulatedSize keeps all outputs bit-identical, and really reads all weights and cache rows of the named shape."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import draftscope
from draftscope import DraftscopeError
from draftscope.decode.engine import DecodingEngine
from draftscope.models.files import memory_needed
from draftscope.models.forward import emulated_size
from draftscope.models.forward.emulated_size import EmulatedShape
from draftscope.models.probe import probed
from draftscope.trace.events import RunStart
from tests.support.models import byte_tokenizer, made_calibration, random_llama

SMALL = EmulatedShape("small", 3, 48, 4, 2, 16, 96, 64)
SMALLER = EmulatedShape("smaller", 1, 24, 2, 1, 16, 32, 64, reads=2)
EXPERTS = EmulatedShape("experts", 2, 48, 4, 2, 16, 24, 64, experts=6, active=2)
DRAFTERS = {"plain": {}, "draft": {"gamma": 3}, "sampled-tree": {"shape": (2, 2)}, "topk-tree": {"shape": (2, 2)}}


def lab_with(dtype: torch.dtype, shapes: tuple[EmulatedShape, EmulatedShape] | None, lean: bool) -> DecodingEngine:
    target, draft = (probed(random_llama(*sizes).to(dtype), "m") for sizes in ((3, 258), (4, 258, 1, 16)))
    for model, shape in zip((target, draft), shapes or (None, None), strict=True):
        if not lean:
            model.run = model.network
        if shape is not None:
            model.emulate(shape)
    engine = DecodingEngine(target, draft, byte_tokenizer())
    engine.calibration = made_calibration()
    return engine


@pytest.mark.parametrize(
    ("dtype", "shapes", "lean"),
    [(torch.float32, (SMALL, SMALLER), True), (torch.bfloat16, (SMALL, SMALLER), False),
     (torch.float32, (EXPERTS, SMALL), False), (torch.bfloat16, (EXPERTS, SMALL), True)],
)  # fmt: skip
def test_an_emulated_size_changes_no_bit(
    dtype: torch.dtype, shapes: tuple[EmulatedShape, EmulatedShape], lean: bool
) -> None:
    light, heavy = lab_with(dtype, None, lean), lab_with(dtype, shapes, lean)
    for drafter, more in DRAFTERS.items():
        for temperature in (0.0, 1.0):
            settings = {"temperature": temperature, "max_new_tokens": 12, "seed": 3, **more}
            one, other = (engine.decode("The quick", drafter, **settings) for engine in (light, heavy))
            assert one.token_ids == other.token_ids
            nodes = [
                [(n.token, n.p, n.q, n.fate) for event in run.round_events for n in event.nodes] for run in (one, other)
            ]
            assert nodes[0] == nodes[1]


def test_a_run_is_marked_with_its_emulated_size() -> None:
    start = lab_with(torch.float32, (SMALL, SMALLER), True).decode("a b", "draft", max_new_tokens=4).events[0]
    assert isinstance(start, RunStart)
    assert [(model.role, model.emulates) for model in start.models] == [("target", "small"), ("draft", "smaller")]
    before = start.model_dump_json().replace('"emulates":', '"ballast":')  # as traces called it first
    assert '"ballast":"small"' in before and RunStart.model_validate_json(before) == start


@pytest.mark.parametrize("shape", [SMALL, SMALLER, EXPERTS])
def test_every_weight_and_cache_row_of_the_shape_is_used(shape: EmulatedShape, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted from the weights that matmuls really read, not from the formula for memory."""
    model = probed(random_llama(3, 258), "m")
    model.emulate(shape)
    cache = model.cache(1, 48)
    read: dict[int, int] = {}
    original = F.linear

    def counted(x: torch.Tensor, weight: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
        read[weight.data_ptr()] = weight.numel()
        return original(x, weight, *more)

    monkeypatch.setattr(emulated_size.F, "linear", counted)
    tokens = torch.arange(24)[None] + 2
    model.forward(cache, tokens, torch.arange(24)[None])
    model.forward(cache, tokens, torch.arange(24)[None])
    monkeypatch.undo()
    own = sum(p.numel() for name, p in model.network.named_parameters() if "embed" not in name and "norm" not in name)
    assert model.emulated is not None
    between = 2 * shape.hidden * model.hidden  # projections to the side stream and, with zeros, back
    assert sum(read.values()) == own + between + shape.values
    assert len(cache.side) == shape.layers
    assert sum(2 * layer.keys[0, :, 0].numel() for layer in cache.side) == shape.slot_values
    assert all(layer.keys[0, :, :48].abs().sum() > 0 for layer in cache.side)


def test_a_size_that_does_not_fit_in_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_needed, "free_bytes", lambda _: 1000)
    with pytest.raises(DraftscopeError, match=r"the emulated size small.*GB free"):
        probed(random_llama(3, 258), "m").emulate(SMALL)


def test_an_unknown_pair_is_refused(pair_folders: tuple[Path, Path]) -> None:
    with pytest.raises(DraftscopeError, match=r"emulate = '9b': choose from 1\.7b\+135m, 8b\+1b"):
        draftscope.load(*pair_folders, emulate="9b")


def test_loading_with_emulated_sizes_applies_to_target_and_draft(
    pair_folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emulated_size, "SHAPES", {"small": SMALL, "smaller": SMALLER})
    monkeypatch.setattr(emulated_size, "PAIRS", {"small+smaller": ("small", "smaller")})
    engine = draftscope.load(*pair_folders, dtype="float32", threads=1, emulate="small+smaller")
    assert engine.target.emulated is not None
    assert engine.draft is not None
    assert engine.draft.emulated is not None
    assert (engine.target.emulated.shape, engine.draft.emulated.shape) == (SMALL, SMALLER)


def test_named_shapes_have_the_published_sizes() -> None:
    """Parameters from the model cards, without input embeddings (Llama-3.2-1B's are also its output weights)."""
    published = {
        "smollm2-135m": 134.5e6,
        "smollm2-1.7b": 1.711e9,
        "1b": 1.24e9,
        "8b": 8.03e9 - 0.525e9,
        "30b-a3b": 30.5e9 - 0.311e9,
        "70b/8": (70.6e9 - 1.05e9) / 8,
    }
    for name, values in published.items():
        assert emulated_size.SHAPES[name].values == pytest.approx(values, rel=0.01), name
