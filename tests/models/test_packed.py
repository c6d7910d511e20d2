"""Weights of 4 and 8 bits in panels, which processors with AVX512-VNNI multiply."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch
from torch import Tensor

from draftscope.models.native import places as at
from draftscope.models.native.available import programs
from draftscope.models.native.packing import EIGHT, FOUR, PackedWeight, packed_blocks, rounded
from tests.support import gguf_files

pytest.importorskip("numba")

Kind = gguf.GGMLQuantizationType
STORED = [(Kind.Q4_0, FOUR), (Kind.Q4_1, FOUR), (Kind.Q8_0, EIGHT)]
multiplies = pytest.mark.skipif(not programs().packs, reason="this processor cannot multiply packed weights")


def weights(seed: int = 1, shape: tuple[int, int] = (48, 96)) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) / 8


def of_file(kind: Kind) -> PackedWeight:
    """`weights()` as a file of this kind has them, packed."""
    return packed_blocks(kind.name, torch.from_numpy(gguf.quants.quantize(weights().numpy(), kind)))


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
    exact, packed = gguf_files.dequantized(weights(), stored), of_file(stored)
    assert packed.kind == kind
    x = torch.randn(rows, 96, generator=torch.Generator().manual_seed(2)).bfloat16()
    actual, expected = multiplied(x, packed, 2), x.double() @ exact.double().T
    widened = x.double() @ exact.bfloat16().double().T
    assert (actual - expected).abs().mean() < (widened - expected).abs().mean()
    assert actual.equal(torch.cat([multiplied(row[None], packed) for row in x]))


@multiplies
def test_inputs_of_any_size_are_multiplied() -> None:
    packed = of_file(Kind.Q4_0)
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


@multiplies
def test_any_weight_can_be_rounded_to_bytes() -> None:
    wide = weights().bfloat16()
    packed = rounded(wide)
    assert packed is not None and rounded(wide[:40]) is None
    x = torch.randn(3, 96, generator=torch.Generator().manual_seed(2)).bfloat16()
    expected = x.double() @ wide.double().T
    assert (multiplied(x, packed) - expected).abs().max() < 0.02 * expected.std()
