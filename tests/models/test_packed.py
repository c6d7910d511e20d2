"""Weights of 4 and 8 bits that are multiplied as they are stored."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from torch import Tensor

import draftscope
from draftscope.base.load_settings import LoadSettings
from draftscope.decode.engine import DecodingEngine
from draftscope.measure.bench.limit import memory_limit
from draftscope.models.model import ForwardMode, Model
from draftscope.models.native import places as at
from draftscope.models.native.available import programs
from draftscope.models.native.packing import EIGHT, FOUR, KINDS, PackedWeight, recovered, rounded
from draftscope.models.probe import probed
from draftscope_app.cli.options import load
from tests.models.test_head_steps import head
from tests.models.test_native import in_float32, llama
from tests.support import gguf_files
from tests.support.models import letters

pytest.importorskip("numba")

Kind = gguf.GGMLQuantizationType
STORED = [(Kind.Q4_0, FOUR), (Kind.Q4_1, FOUR), (Kind.Q8_0, EIGHT)]
SIZES = {"vocab_size": 80}  # whole panels
multiplies = pytest.mark.skipif(not programs().packs, reason="this processor cannot multiply packed weights")


def weights(seed: int = 1, shape: tuple[int, int] = (48, 96)) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) / 8


def multiplied(x: Tensor, weight: PackedWeight, threads: int = 1) -> Tensor:
    """x [rows, I] times a packed weight, in float32."""
    outputs, rows = 16 * weight.data.shape[0], x.contiguous()
    product, split = torch.empty(len(x), outputs), torch.empty(x.shape)
    a = np.zeros(at.M_ARGUMENTS, dtype=np.int64)
    a[at.M_ROWS], a[at.M_LENGTH], a[at.M_OUTPUTS], a[at.M_X] = *x.shape, outputs, rows.data_ptr()
    a[at.M_WEIGHT], a[at.M_SPLIT], a[at.M_PRODUCT] = weight.address, split.data_ptr(), product.data_ptr()
    programs().run(programs().multiply, a, at.M_TEAM, threads)
    return product


@multiplies
@pytest.mark.parametrize(("stored", "kind"), STORED)
@pytest.mark.parametrize("rows", [1, 2, 7, 8, 9, 17])
def test_a_product_is_that_of_the_weights_as_they_are_stored(stored: Kind, kind: int, rows: int) -> None:
    """Nearer to them than their rounding to bfloat16 is, and a row does not depend on those beside it."""
    exact = gguf_files.dequantized(weights(), stored)
    packed = recovered(exact.bfloat16())
    assert packed is not None and packed.kind == kind
    x = torch.randn(rows, 96, generator=torch.Generator().manual_seed(2)).bfloat16()
    actual, expected = multiplied(x, packed, 2), x.double() @ exact.double().T
    widened = x.double() @ exact.bfloat16().double().T
    assert (actual - expected).abs().mean() < (widened - expected).abs().mean()
    assert actual.equal(torch.cat([multiplied(row[None], packed) for row in x]))


@multiplies
def test_inputs_of_any_size_are_multiplied() -> None:
    packed = recovered(gguf_files.dequantized(weights(), Kind.Q4_0).bfloat16())
    assert packed is not None
    x = torch.randn(4, 96, generator=torch.Generator().manual_seed(2))
    x[0] = 0
    x[1, :32] *= 1e30
    x[2] *= 1e-20
    x[3, 32:64] = 0
    out = multiplied(x.bfloat16(), packed)
    expected = x.bfloat16().double() @ gguf_files.dequantized(weights(), Kind.Q4_0).double().T
    assert out[0].equal(torch.zeros(48))
    for row in (1, 2, 3):
        torch.testing.assert_close(
            out[row].double(), expected[row], rtol=0.01, atol=float(expected[row].abs().max()) / 500
        )


def test_only_levels_of_blocks_are_packed() -> None:
    stored = gguf_files.dequantized(weights(), Kind.Q4_1).bfloat16()
    assert recovered(weights().bfloat16()) is None  # any values
    assert recovered(stored[:40]) is None  # no whole panels
    assert recovered(stored[:, :80]) is None  # no whole blocks
    stored[47, 95] += stored[47, 64:].abs().max() / 20
    assert recovered(stored) is None
    assert recovered(torch.zeros(16, 32, dtype=torch.bfloat16)) is not None


@multiplies
def test_any_weight_can_be_rounded_to_bytes() -> None:
    wide = weights().bfloat16()
    packed = rounded(wide)
    assert packed is not None and rounded(wide[:40]) is None
    x = torch.randn(3, 96, generator=torch.Generator().manual_seed(2)).bfloat16()
    expected = x.double() @ wide.double().T
    assert (multiplied(x, packed) - expected).abs().max() < 0.02 * expected.std()


def stored_network(kind: Kind, **more: Any) -> Any:
    """A random Llama whose matrices are as a file of this kind has them, widened."""
    network = llama(**SIZES, **more)
    with torch.no_grad():
        for weight in network.parameters():
            if weight.dim() > 1:
                weight.copy_(gguf_files.dequantized(weight, kind))
    return network


def logits_of_a_tree(model: Model) -> Tensor:
    """Of a prompt of each of two sequences, and of a tree after it."""
    cache = model.cache(2, 32)
    model.read(cache, [[1, 2, 3, 4], [5, 6]])
    sees = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 1]], dtype=torch.bool).expand(2, -1, -1)
    tokens = torch.tensor([[7, 8, 9, 10], [11, 12, 13, 14]])
    return model.forward(cache, tokens, torch.tensor([[0, 1, 1, 2]]).expand(2, -1), sees)


def assert_nearer_than_the_modules(model: Model) -> None:
    """Its logits are nearer to those in float32 than those of transformers' modules in bfloat16 are."""
    modules = probed(model.network, "modules")
    modules.run = modules.network
    expected = logits_of_a_tree(in_float32(model.network))
    error, theirs = ((logits_of_a_tree(each) - expected).abs().mean() for each in (model, modules))
    assert error < theirs


@pytest.mark.parametrize("kind", [Kind.Q4_0, Kind.Q4_1, Kind.Q8_0])
def test_a_network_gives_the_logits_of_its_weights(kind: Kind) -> None:
    model = probed(stored_network(kind), "packed", packed=True)
    assert model.forward_mode is (ForwardMode.PACKED if programs().packs else ForwardMode.NATIVE)
    assert_nearer_than_the_modules(model)
    shallow = model.first_layers(2)
    assert shallow.forward_mode is model.forward_mode
    assert_nearer_than_the_modules(shallow)


@multiplies
def test_what_a_token_reads_less_is_counted() -> None:
    """4 bits with scale and least weight are 20 bytes for 32 weights, of 64 in bfloat16."""
    network = stored_network(Kind.Q4_0)
    model, wide = (probed(network, "counted", packed=packed) for packed in (True, False))
    products = [weight for name, weight in network.named_parameters() if weight.dim() > 1 and "embed" not in name]
    assert wide.saved_bytes == 0
    assert model.saved_bytes == sum(weight.numel() // 32 * (64 - 20) for weight in products)
    limits = [memory_limit(each, 8) for each in (model, wide)]
    assert limits[0] is not None and limits[1] is not None
    assert limits[1].weight_bytes - limits[0].weight_bytes == model.saved_bytes


def test_products_that_cannot_be_packed_stay_wide() -> None:
    network = stored_network(Kind.Q4_0)
    with torch.no_grad():
        network.lm_head.weight.copy_(torch.randn(network.lm_head.weight.shape) / 8)
    assert_nearer_than_the_modules(probed(network, "partly", packed=True))


def test_nothing_is_packed_unless_wanted() -> None:
    assert probed(stored_network(Kind.Q4_0), "wide").forward_mode is ForwardMode.NATIVE


def test_greedy_drafts_keep_the_text() -> None:
    network = stored_network(Kind.Q4_1)
    engine = DecodingEngine(probed(network, "t", packed=True), probed(llama(**SIZES), "d"), letters(80))
    plain = engine.decode("abcabc", "plain", max_new_tokens=24, temperature=0.0)
    for drafter in ("draft", "ngram", "sampled-tree"):
        assert engine.decode("abcabc", drafter, max_new_tokens=24, temperature=0.0).token_ids == plain.token_ids


def test_a_file_is_read_as_it_is_stored_if_that_is_wanted(tmp_path: Path) -> None:
    network = llama(**SIZES | {"vocab_size": 288})
    path = gguf_files.write(tmp_path / "a.gguf", network.float(), gguf_files.tokenizer_with_merges(), Kind.Q4_1)
    widened = "4-bit weights (Q4_1) widened to bfloat16"
    as_stored = "4-bit weights (Q4_1), read as they are stored" if programs().packs else widened
    for dtype, words in (("stored", as_stored), ("auto", widened), ("bfloat16", widened)):
        engine = draftscope.load(path, dtype=dtype, threads=1)
        assert engine.target.weights == words
        assert engine.target.widened == (programs().packs and words == widened)
        assert engine.decode("the cat", "plain", max_new_tokens=4).events[0].models[0].compiled


@pytest.mark.parametrize("dtype", ["stored", "bfloat16"])
def test_a_heads_weights_are_rounded_beside_every_target(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = head("eagle3")
    monkeypatch.setattr(import_module("draftscope.decode.load"), "load_head", lambda *_: made)
    network, tokenizer = llama(**SIZES | {"vocab_size": 288}), gguf_files.tokenizer_with_merges()
    path = gguf_files.write(tmp_path / "a.gguf", network.float(), tokenizer, Kind.Q4_1)
    draftscope.load(path, heads=("eagle3:any",), dtype=dtype, threads=1)
    assert made.step is not None
    assert (made.step._fixed[at.HEAD] & KINDS == EIGHT) == programs().packs


@multiplies
def test_the_command_line_says_how_weights_are_read_as_they_are_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network, tokenizer = llama(**SIZES | {"vocab_size": 288}), gguf_files.tokenizer_with_merges()
    path = gguf_files.write(tmp_path / "a.gguf", network.float(), tokenizer, Kind.Q4_1)
    for dtype, said in (("auto", True), ("stored", False)):
        load(LoadSettings(target=str(path), dtype=dtype, threads=1))
        assert ("--dtype stored" in capsys.readouterr().err) == said
