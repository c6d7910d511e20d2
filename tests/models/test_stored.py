"""Weights that are multiplied as they lie in a GGUF file."""

from __future__ import annotations

import platform
from ctypes import CFUNCTYPE, c_int64
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("numba")

from draftscope.models.native import places as at
from draftscope.models.native.available import programs, stored_kinds
from draftscope.models.native.decoders import FORMATS
from draftscope.models.native.stored_products import SHORT, program_of
from draftscope.models.native.stored_weight import StoredRows, StoredWeight, joined
from tests.support.gguf_blocks import blocks, defined, dequantized
from tests.support.native_code import ARM, AVX2, Compiled, assembly, product

COLUMNS = 512
MULTIPLIED = [
    pytest.param(kind, marks=pytest.mark.skipif(kind not in stored_kinds(), reason="no AVX2")) for kind in FORMATS
]
on_x86 = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="AVX2 is a feature of x86-64")


def inputs(rows: int, columns: int = COLUMNS) -> np.ndarray[Any, Any]:
    return np.random.default_rng(5).standard_normal((rows, columns)).astype(np.float32)


@lru_cache(maxsize=len(FORMATS))
def program(kind: str) -> Any:
    return CFUNCTYPE(None, *[c_int64] * 9)(program_of(kind))


@pytest.mark.parametrize("kind", MULTIPLIED)
def test_a_product_is_that_of_the_files_own_values(kind: str) -> None:
    """A hundred times nearer than weights rounded to bfloat16."""
    data, x = blocks(kind, 83, COLUMNS), inputs(5)
    weights, actual = dequantized(kind, data), product(program(kind), x, data)
    expected = x.astype(np.float64) @ weights.astype(np.float64).T
    rounded = torch.from_numpy(weights).bfloat16().double().numpy()
    assert np.abs(actual - expected).mean() < np.abs(x @ rounded.T - expected).mean() / 50
    assert np.abs(actual - expected).max() < 2e-4 * np.abs(expected).max()


@pytest.mark.parametrize("kind", MULTIPLIED)
def test_bits_of_a_row_do_not_depend_on_the_rows_beside_it(kind: str) -> None:
    data, x = blocks(kind, 37, COLUMNS), inputs(35)
    by_row = np.concatenate([product(program(kind), row[None], data) for row in x])
    for rows in (*range(1, 18), 35):
        assert np.array_equal(product(program(kind), x[:rows], data), by_row[:rows]), rows


@pytest.mark.parametrize("kind", MULTIPLIED)
def test_a_product_has_the_bits_of_its_definition(kind: str) -> None:
    data, x = blocks(kind, 9, COLUMNS), inputs(3)
    assert np.array_equal(product(program(kind), x, data), defined(kind, x, data))


@pytest.mark.parametrize("kind", MULTIPLIED)
@pytest.mark.parametrize("byte", [0x00, 0x80, 0x7F, 0xFF])
def test_no_sum_is_too_large_for_its_integer(kind: str, byte: int) -> None:
    data = blocks(kind, 4, COLUMNS, byte=byte)
    x = np.full((2, COLUMNS), 3.0, np.float32) * np.array([[1], [-1]], np.float32)
    expected = x.astype(np.float64) @ dequantized(kind, data).astype(np.float64).T
    np.testing.assert_allclose(product(program(kind), x, data), expected, rtol=1e-4, atol=1e-4)


def test_inputs_of_any_size_are_multiplied() -> None:
    data, x = blocks("Q4_K", 8, COLUMNS), inputs(4)
    x[0] = 0
    x[1, :32] *= np.float32(1e30)
    x[2] *= np.float32(1e-20)
    x[3, 256:] = 0
    actual = product(program("Q4_K"), x, data)
    expected = x.astype(np.float64) @ dequantized("Q4_K", data).astype(np.float64).T
    assert not actual[0].any()
    for row in (1, 2, 3):
        np.testing.assert_allclose(actual[row], expected[row], rtol=1e-3, atol=float(np.abs(expected[row]).max()) / 1e3)


@on_x86
@pytest.mark.parametrize("kind", FORMATS)
def test_a_processor_with_avx2_computes_the_same_bits(kind: str) -> None:
    """The program for a processor without AVX-512, run on whatever processor this is."""
    data, x = blocks(kind, 9, COLUMNS), inputs(7)
    actual = Compiled(kind, SHORT, AVX2)(x, data)
    assert np.array_equal(actual[:3], defined(kind, x[:3], data))
    assert np.array_equal(actual, product(program(kind), x, data))


@pytest.mark.parametrize("kind", FORMATS)
def test_the_program_for_arm_is_vector_code(kind: str) -> None:
    """It was made and read, and never ran on such a processor."""
    code = assembly(kind, SHORT, ARM)
    for instruction in ("fmla\tv", "scvtf\tv", "smull\tv"):
        assert instruction in code
    assert "bl\t__" not in code  # no call of a helper, such as for conversions from float16


def multiplied(x: torch.Tensor, weight: StoredWeight, threads: int) -> torch.Tensor:
    """bfloat16 x [rows, I] times a weight, in float32, by the program that `linear` runs."""
    outputs, rows = len(weight), x.contiguous()
    out, split = torch.empty(len(x), outputs), torch.empty(x.shape)
    a = np.zeros(at.M_ARGUMENTS, dtype=np.int64)
    a[at.M_ROWS], a[at.M_LENGTH], a[at.M_OUTPUTS], a[at.M_X] = *x.shape, outputs, rows.data_ptr()
    a[at.M_WEIGHT], a[at.M_SPLIT], a[at.M_PRODUCT] = weight.data_ptr(), split.data_ptr(), out.data_ptr()
    programs().run(programs().multiply, a, at.M_TEAM, threads)
    return out


@pytest.mark.skipif(not stored_kinds(), reason="no AVX2")
def test_a_weight_may_mix_types_as_files_mix_them() -> None:
    """Also with rows in bfloat16, and with parts that end within a thread's share."""
    wide = torch.randn(40, COLUMNS, generator=torch.Generator().manual_seed(3)).bfloat16()
    parts = {"Q4_K": 64, "Q6_K": 35, "Q8_0": 96}
    stored = [
        StoredWeight([StoredRows(kind, torch.from_numpy(blocks(kind, size, COLUMNS)), COLUMNS)])
        for kind, size in parts.items()
    ]
    weight, x = joined([*stored, wide]), torch.from_numpy(inputs(5)).bfloat16()
    expected = x.double() @ weight.widened(torch.float64).T
    one, *others = (multiplied(x, weight, threads) for threads in (1, 2, 3))
    torch.testing.assert_close(one.double(), expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max()))
    assert all(other.equal(one) for other in others)
