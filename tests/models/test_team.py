"""A thread of a compiled call that raises ends the call in a sentence; the others do not wait for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from draftscope.models.native.available import why_not

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

DEADLINE_S = 120  # of a process that compiles for a few seconds
RAISING = """
import numpy as np
from numba import cfunc, njit
from draftscope.base.errors import DraftscopeError
from draftscope.models.native import native_program
from draftscope.models.native.memory import integers
from draftscope.models.native.team import barrier, guarded, start, thread, threads

TEAM, RAISES, COUNTS, SIZE = range(4)  # RAISES [threads]: before which of three barriers a thread raises

def share(a, t, n):
    for place in range(3):
        if integers(a[RAISES])[t] == place:
            raise ValueError("raised by a test")
        integers(a[COUNTS])[t] += 1
        barrier(a[TEAM], t)
    if integers(a[RAISES])[t] == 3:
        raise ValueError("raised by a test")

whole = guarded(njit(nogil=True)(share))

@cfunc(native_program.SIGNATURE)
def raising(arguments):
    whole(arguments, TEAM, thread(), threads())

run = start()
for raises in {cases}:
    raises, counts = np.array(raises), np.zeros(len(raises), dtype=np.int64)
    a = np.array([0, raises.ctypes.data, counts.ctypes.data], dtype=np.int64)
    try:
        run(raising.address, a, TEAM, len(raises))
        said = "nothing"
    except DraftscopeError as error:
        said = str(error)
    print(counts.tolist(), said, flush=True)
"""
NEVER = 9
CASES = [  # for each thread, before which barrier it raises
    [NEVER, NEVER],
    [NEVER, 1],
    [0, NEVER],
    [0, 2],
    [2, 2],
    [3, NEVER],
    [1],
    [NEVER, 2, NEVER, 0],
]


def test_no_thread_waits_for_one_that_raised() -> None:
    code = RAISING.replace("{cases}", repr(CASES))
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=DEADLINE_S)
    lines = said.stdout.splitlines()
    for raises, line in zip(CASES, lines, strict=True):
        counts = [min(place, 3) for place in raises]
        failed = any(place != NEVER for place in raises)
        sentence = (
            "A thread of a compiled forward failed, so its numbers are lost; load the models with dtype 'float32'"
        )
        assert line.startswith(f"{counts} {sentence if failed else 'nothing'}")
    assert "Exception ignored" not in said.stderr
