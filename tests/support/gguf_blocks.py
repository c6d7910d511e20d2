"""Blocks of every type of tensor that is multiplied as it lies in a file, and their product as it is defined."""

from __future__ import annotations

from typing import Any

import gguf
import numpy as np

from draftscope.models.native.decoders import FORMATS

Array = np.ndarray[Any, Any]
FLOATS = {  # where the float16 of a block are: its factor, and what its least weights are multiplied by
    "Q4_1": (0, 2), "Q5_1": (0, 2), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,),
}  # fmt: skip
LARGEST = 32767  # of a rounded input


def blocks(kind: str, outputs: int, columns: int, seed: int = 0, byte: int | None = None, size: float = 0.01) -> Array:
    """uint8 [outputs, bytes]: any bytes, or all the same one, with factors about `size` that are numbers."""
    form, generator = FORMATS[kind], np.random.default_rng(seed)
    count = outputs * columns // form.values
    data = generator.integers(0, 256, (count, form.size), dtype=np.uint8)
    if byte is not None:
        data[:] = byte
    for place in FLOATS.get(kind, (0,)):
        factor = size * generator.uniform(0.5, 1.5, count) * generator.choice([-1, 1], count)
        data[:, place : place + 2] = factor.astype(np.float16).view(np.uint8).reshape(count, 2)
    return data.reshape(outputs, -1)


def dequantized(kind: str, data: Array) -> Array:
    """float32 [outputs, columns], by the package `gguf`."""
    return gguf.quants.dequantize(data, gguf.GGMLQuantizationType[kind])


def defined(kind: str, x: Array, data: Array) -> Array:
    """The product, number by number as `native/native_stored.py` describes it."""
    form = FORMATS[kind]
    factor, level, least = _parts(kind, data)
    levels = level.reshape(len(data), -1, form.values // 16 // form.summed, form.summed, 8, 2)
    out = np.zeros((len(x), len(data)), np.float32)
    for row, values in enumerate(x.reshape(len(x), -1, form.values)):
        size = np.abs(values).max(-1)
        step, inverse = (size / np.float32(LARGEST)).astype(np.float32), (np.float32(LARGEST) / size).astype(np.float32)
        whole = np.rint(values * inverse[:, None]).astype(np.int64)
        inputs = whole.reshape(-1, *levels.shape[2:])
        sums = np.zeros((len(data), 8), np.float32)
        totals = step[:, None] * whole.reshape(len(step), -1, 32).sum(-1).astype(np.float32)
        products = (levels * inputs).sum((3, 5))  # exact
        for block in range(len(step)):
            for part in range(products.shape[2]):
                sums = _fma(
                    products[:, block, part].astype(np.float32), (factor[:, block] * step[block])[:, None], sums
                )
            if least is not None:
                count = totals.shape[1]
                sums[:, :count] = _fma(totals[block], least[:, block], sums[:, :count])
        for width in (4, 2, 1):
            sums = sums[:, :width] + sums[:, width : 2 * width]
        out[row] = sums[:, 0]
    return out


def _fma(one: Array, other: Array, more: Array) -> Array:
    """Rounded once: a product of two float32 is exact in a long double."""
    return (one.astype(np.longdouble) * other + more).astype(np.float32)


def _parts(kind: str, data: Array) -> tuple[Array, Array, Array | None]:
    """Factors [outputs, blocks], levels [outputs, columns], and least weights [outputs, blocks, sub-blocks]: what
    `gguf` gives for blocks whose floats are 1 and 0."""
    form, places = FORMATS[kind], FLOATS.get(kind, (0,))
    rows = data.reshape(len(data), -1, form.size)
    floats = [np.ascontiguousarray(rows[..., at : at + 2]).view(np.float16)[..., 0].astype(np.float32) for at in places]
    level = _with(kind, rows, places, (1.0, 0.0))
    if len(places) == 1:
        return floats[0], level, None
    by_block = _with(kind, rows, places, (0.0, 1.0)).reshape(len(data), -1, form.values // 32, 32)[..., 0]
    return floats[0], level, floats[1][..., None] * by_block


def _with(kind: str, rows: Array, places: tuple[int, ...], floats: tuple[float, float]) -> Array:
    rows = rows.copy()
    for place, value in zip(places, floats, strict=False):
        rows[..., place : place + 2] = np.array([value], np.float16).view(np.uint8)
    return dequantized(kind, rows.reshape(len(rows), -1))
