"""One product of rows and a bfloat16 weight as one call on all threads, for modules outside the compiled forward."""

from __future__ import annotations

from functools import lru_cache

from numba import cfunc, njit, types

from draftscope.models.native import products, team
from draftscope.models.native.instructions import LANES
from draftscope.models.native.memory import floats, halves, wide
from draftscope.models.native.pieces import narrowed, part
from draftscope.models.native.places import BLOCK, M_LENGTH, M_OUT, M_OUTPUTS, M_PRODUCT, M_ROWS, M_SPLIT, M_WEIGHT, M_X
from draftscope.models.native.products import product
from draftscope.models.native.team import barrier, sources, thread, threads


@njit(nogil=True)
def _multiply(a, t, n):  # type: ignore[no-untyped-def]
    rows, length, outputs = a[M_ROWS], a[M_LENGTH], a[M_OUTPUTS]
    x, split = halves(a[M_X]), floats(a[M_SPLIT])
    first, last = part(rows * length, BLOCK, t, n)
    for block in range(first, last, BLOCK):
        for lane in range(LANES):
            split[block + lane] = wide(x[block + 2 * lane])
            split[block + LANES + lane] = wide(x[block + 2 * lane + 1])
    if n > 1:
        barrier()
    first, last = part(outputs, BLOCK, t, n)
    product(a[M_SPLIT], 4 * length, a[M_WEIGHT], length, rows, a[M_PRODUCT], 4 * outputs, first, last)
    if a[M_OUT] != 0:
        for row in range(rows):
            at = row * outputs + first
            narrowed(a[M_PRODUCT] + 4 * at, last - first, a[M_OUT] + 2 * at)


@lru_cache(maxsize=1)
def compiled() -> int:
    """The address of the program, compiled once a machine."""
    team.start()
    products.start()
    version = sources()  # a part of the key of what numba keeps

    @cfunc(types.void(types.CPointer(types.int64)), cache=True)
    def program(arguments):  # type: ignore[no-untyped-def]
        if version != "":
            _multiply(arguments, thread(), threads())

    return int(program.address)
