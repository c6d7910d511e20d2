"""Weights in panels of 16 outputs, which processors with AVX512-VNNI multiply."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("numba")

from draftscope.models.files.gguf_tensor import StoredTensor
from draftscope.models.native.available import programs
from draftscope.models.native.decoders import FORMATS
from draftscope.models.native.panels import in_panels
from draftscope.models.native.rounded import rounded
from draftscope.models.native.stored_weight import StoredRows, StoredWeight
from tests.models.test_stored import COLUMNS, inputs, multiplied
from tests.support.gguf_blocks import Array, blocks, dequantized

OUTPUTS = 48
multiplies = pytest.mark.skipif(not programs().panels, reason="this processor does not multiply panels")


@lru_cache(maxsize=len(FORMATS))
def stored(kind: str) -> tuple[StoredWeight, Array]:
    """A weight, and its values as the package `gguf` reads them."""
    data = blocks(kind, OUTPUTS, COLUMNS)
    weight = StoredWeight([StoredRows(kind, torch.from_numpy(data), COLUMNS)])
    return weight, dequantized(kind, data).astype(np.float64)


def product(x: Array, weight: StoredWeight, threads: int = 1) -> Array:
    return multiplied(torch.from_numpy(x).bfloat16(), weight, threads).numpy()


def seen(x: Array) -> Array:
    """The inputs as bfloat16, in which they come."""
    return torch.from_numpy(x).bfloat16().double().numpy()


@multiplies
@pytest.mark.parametrize("kind", FORMATS)
def test_a_product_is_that_of_the_files_own_values(kind: str) -> None:
    """Fifty times nearer than weights rounded to bfloat16."""
    (weight, values), x = stored(kind), inputs(5)
    expected, rounded_to = seen(x) @ values.T, torch.from_numpy(values).bfloat16().double().numpy()
    actual = product(x, weight)
    assert np.abs(actual - expected).mean() < np.abs(seen(x) @ rounded_to.T - expected).mean() / 50
    assert np.abs(actual - expected).max() < 2e-4 * np.abs(expected).max()


@multiplies
@pytest.mark.parametrize("kind", FORMATS)
def test_bits_of_a_row_depend_neither_on_the_rows_beside_it_nor_on_threads(kind: str) -> None:
    (weight, _), x = stored(kind), inputs(35)
    alone = np.concatenate([product(row[None], weight) for row in x])
    for rows in (*range(1, 18), 35):
        assert np.array_equal(product(x[:rows], weight, 1 + rows % 3), alone[:rows]), rows


@multiplies
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("byte", [0x00, 0x80, 0x7F, 0xFF])
def test_no_sum_is_too_large_for_its_integer(kind: str, byte: int) -> None:
    data = blocks(kind, 16, COLUMNS, byte=byte)
    x = np.full((2, COLUMNS), 3.0, np.float32) * np.array([[1], [-1]], np.float32)
    weight = StoredWeight([StoredRows(kind, torch.from_numpy(data), COLUMNS)])
    expected = x.astype(np.float64) @ dequantized(kind, data).astype(np.float64).T
    np.testing.assert_allclose(product(x, weight), expected, rtol=1e-4, atol=1e-4)


@multiplies
def test_inputs_of_any_size_are_multiplied() -> None:
    (weight, values), x = stored("Q4_K"), inputs(4)
    x[0] = 0
    x[1, :32] *= np.float32(1e30)
    x[2] *= np.float32(1e-20)
    x[3, 256:] = 0
    actual, expected = product(x, weight), seen(x) @ values.T
    assert not actual[0].any()
    for row in (1, 2, 3):
        np.testing.assert_allclose(actual[row], expected[row], rtol=1e-3, atol=float(np.abs(expected[row]).max()) / 1e3)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_panel_has_the_bytes_of_its_rows_and_forgets_what_it_read(kind: str) -> None:
    data, forgotten = torch.from_numpy(blocks(kind, OUTPUTS, COLUMNS)), []
    panels = in_panels(kind, data, lambda: forgotten.append(1))
    assert panels.numel() == data.numel() and len(panels) == OUTPUTS // 16 and forgotten
    if kind not in ("Q5_0", "Q5_1", "Q8_0"):
        assert panels[1].flatten().bincount(minlength=256).equal(data[16:32].flatten().bincount(minlength=256))


def resident() -> int:
    """Bytes of this process that lie in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_what_was_read_of_a_file_does_not_stay_in_memory_beside_its_panels(tmp_path: Path) -> None:
    data = np.tile(blocks("Q4_1", 16, COLUMNS), (8192, 1))
    (tmp_path / "a").write_bytes(data.tobytes())
    tensor = StoredTensor(tmp_path / "a", "Q4_1", (len(data), COLUMNS), 0, data.nbytes)
    in_panels("Q4_1", torch.from_numpy(data[:16]))  # compiles
    before = resident()
    mapped, forget = tensor.mapped()
    panels = in_panels("Q4_1", mapped, forget)
    assert panels.nbytes == data.nbytes and resident() - before < 1.3 * data.nbytes


@multiplies
def test_rows_of_a_file_in_another_order_are_not_kept_beside_their_panels() -> None:
    data, turned = torch.from_numpy(blocks("Q4_1", OUTPUTS, COLUMNS)), torch.arange(OUTPUTS).flip(0)
    weight = StoredWeight([StoredRows("Q4_1", data, COLUMNS, lambda rows: rows[turned])])
    assert np.array_equal(product(inputs(2), weight), product(inputs(2), stored("Q4_1")[0])[:, ::-1])
    assert sum(each.nbytes for each in weight.read[1:]) == data.nbytes
    assert weight.widened(torch.float32).equal(stored("Q4_1")[0].widened(torch.float32)[turned])


@multiplies
def test_any_weight_can_be_rounded_to_bytes() -> None:
    wide = (torch.randn(48, 96, generator=torch.Generator().manual_seed(1)) / 8).bfloat16()
    small = rounded(wide)
    assert small is not None and rounded(wide[:40]) is None
    x: Any = inputs(3, 96)
    expected = seen(x) @ wide.double().numpy().T
    assert np.abs(product(x, small) - expected).max() < 0.02 * expected.std()
