"""Weights of a GGUF file as they lie in memory where processors multiply 16 outputs at a time (`panel_tiles.py`).

A panel has 16 rows of blocks. Of every block in turn the words of four bytes lie side by side, the first of all 16
rows, then the second; a float16 that leaves no whole words lies before them. So a panel has the bytes of its rows in
the file, but that the fifth bits of Q5_0 and Q5_1 change places within their word and the levels of Q8_0 begin at 0.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from functools import lru_cache

import torch
from numba import cfunc, types
from torch import Tensor

from draftscope.base.compiling import kept_or_not
from draftscope.models.native.decoders import FORMATS
from draftscope.models.native.instructions import LANES
from draftscope.models.native.memory import halves
from draftscope.models.native.team import sources

AT_ONCE = 1 << 22  # bytes of rows that are read before the next are
FACTORS = {"Q6_K": 104}  # the half of a block that is its factor, if there is a single one; elsewhere the first
SPREAD = ("Q5_0", "Q5_1")


def in_panels(kind: str, rows: Tensor, read: Callable[[], None] = lambda: None) -> Tensor:
    """uint8 [outputs, bytes] of a file as panels [outputs / 16, blocks, 16 times the bytes of a block].

    `read` is called when some of the rows have been read.
    """
    size = FORMATS[kind].size
    blocks = rows.shape[1] // size
    out = _memory(rows.numel()).view(len(rows) // LANES, blocks, LANES * size)
    step, program = LANES * max(1, AT_ONCE // (LANES * rows.shape[1])), _program()
    for part, panels in zip(rows.split(step), out.split(step // LANES), strict=True):
        part = part.contiguous()
        program(part.data_ptr(), len(part), blocks, size // 2, FACTORS.get(kind, 0), panels.data_ptr())
        read()
        words = panels[..., 2 * LANES * (size // 2 % 2) :].unflatten(-1, (-1, LANES, 4))
        if kind == "Q8_0":
            words.bitwise_xor_(128)  # int8 + 128
        elif kind in SPREAD:
            fifth = words[:, :, 1 - size // 2 % 2]  # Q5_1 has its two float16 in a word before
            fifth.copy_(_spread(fifth))
    return out


def _memory(size: int) -> Tensor:
    """Bytes, on large pages where the system gives them: fewer addresses are looked up while they are read."""
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=torch.uint8)


@lru_cache(maxsize=1)
def _program() -> Callable[..., None]:
    """What arranges rows: their address, number and blocks, the number of halves of a block, the place of the factor
    among them, and the address of the panels."""
    return kept_or_not(_compiled)


def _compiled() -> Callable[..., None]:
    version = sources()  # a part of the key of what numba keeps

    @cfunc(types.void(*[types.int64] * 6), cache=True)
    def arrange(rows, count, blocks, size, factor, out):  # type: ignore[no-untyped-def]
        if version == "":
            return
        source, panels, at = halves(rows), halves(out), 0
        for first in range(0, count, LANES):
            for block in range(blocks):
                start, words = (first * blocks + block) * size, 0
                if size % 2 == 1:
                    for lane in range(LANES):
                        panels[at + lane] = source[start + lane * blocks * size + factor]
                    at += LANES
                    words = 1 if factor == 0 else 0
                for half in range(words, words + size // 2 * 2, 2):
                    for lane in range(LANES):
                        place = start + lane * blocks * size + half
                        panels[at + 2 * lane] = source[place]
                        panels[at + 2 * lane + 1] = source[place + 1]
                    at += 2 * LANES

    return arrange.ctypes  # type: ignore[no-any-return]


def _spread(bytes_: Tensor) -> Tensor:
    """Fifth bits uint8 [..., 4] of 32 inputs, in order, as bit g of byte k for input 4 g + k."""
    every = torch.arange(256, dtype=torch.int32)
    table = torch.zeros_like(every)
    for bit in range(8):
        table |= (every >> bit & 1) << (8 * (bit % 4) + bit // 4)
    words = torch.zeros(bytes_.shape[:-1], dtype=torch.int32)
    for place in range(4):
        words |= table[bytes_[..., place].long()] << 2 * place
    return words[..., None].view(torch.uint8)
