"""Runs compiled code on torch's own OpenMP threads, so that two pools of threads never wait for each other's cores.

Within one call the threads meet at barriers; a whole forward is one call. If one of them raises, the others would wait
for it at the next barrier for ever: it goes on to meet them there until they have ended, and the call raises. Only
OpenMP libraries with GNU's interface are supported: torch's builds for Linux have one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import torch
from numba import njit, types

from draftscope.base.errors import DraftscopeError
from draftscope.models.native.memory import integers

LINE = 8  # words a thread has: a cache line, which no other thread writes
MET, STATE = 0, 1  # of these: how often it has come to a barrier, and one of the following
ENDED, FAILED = 1, 2

thread = types.ExternalFunction("omp_get_thread_num", types.int32())
threads = types.ExternalFunction("omp_get_num_threads", types.int32())
_wait_for_all = types.ExternalFunction("GOMP_barrier", types.void())
_let_others_run = types.ExternalFunction("sched_yield", types.int32())


@njit(nogil=True)
def _words(team, t):  # type: ignore[no-untyped-def]
    return integers(team + 8 * LINE * t)


@njit(nogil=True)
def barrier(team, t):  # type: ignore[no-untyped-def]
    """Waits until all threads of the `team`, an address, have come here."""
    _words(team, t)[MET] += 1
    _wait_for_all()


@njit(nogil=True)
def _meet_the_others(team, t, n):  # type: ignore[no-untyped-def]
    """Comes to every barrier that another thread comes to, until none is left that computes."""
    mine = _words(team, t)
    while True:
        waiting, computing = False, False
        for other in range(n):
            waiting |= _words(team, other)[MET] > mine[MET]
            computing |= _words(team, other)[STATE] == 0
        if waiting:
            barrier(team, t)
        elif computing:
            _let_others_run()
        else:
            return


def guarded(share: Any) -> Any:
    """`share(a, t, n)`, which thread t of n does of a program, so that no other thread waits for one that raises.

    It also takes the place of the team's address in the arguments `a`.
    """

    @njit(nogil=True)
    def whole(a, place, t, n):  # type: ignore[no-untyped-def]
        mine, failed = _words(a[place], t), False
        try:
            share(a, t, n)
        except Exception:  # of any kind: the call raises
            failed = True
        mine[STATE] = FAILED if failed else ENDED
        if failed:
            _meet_the_others(a[place], t, n)

    return whole


@lru_cache(maxsize=1)
def start() -> Callable[[int, Any, int, int], None]:
    """What runs a program: `run(program, a, place, threads)`, with the place of the team's address in the arguments.

    It raises DraftscopeError if a thread raised. Raises OSError if torch has not loaded GNU OpenMP.
    """
    parallel = _entry()

    def run(program: int, a: Any, place: int, threads: int) -> None:
        team = np.zeros((threads, LINE), dtype=np.int64)
        a[place] = team.ctypes.data
        parallel(program, a.ctypes.data, threads, 0)
        if team[:, STATE].max() == FAILED:
            raise DraftscopeError(
                "A thread of a compiled forward failed, so its numbers are lost; load the models with dtype 'float32', "
                "whose forward is not compiled."
            )

    return run


def _entry() -> Any:
    """GNU OpenMP's `GOMP_parallel(function, data, threads, flags)`, from the library that torch has loaded."""
    torch.ones(1)  # so that torch's library is loaded
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    paths = {line.split(maxsplit=5)[5] for line in lines if "gomp" in line or "libomp" in line or "iomp" in line}
    libraries = sorted(path for path in paths if ".so" in Path(path).name)
    if len(libraries) != 1:
        raise OSError(f"there must be exactly one OpenMP library in this process, and there are {len(libraries)}")
    library = ctypes.CDLL(libraries[0])
    if not all(hasattr(library, name) for name in ("GOMP_parallel", "GOMP_barrier", "omp_get_thread_num")):
        raise OSError(f"'{Path(libraries[0]).name}' does not have GNU OpenMP's interface")
    llvm.load_library_permanently(libraries[0])
    parallel = library.GOMP_parallel
    parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    parallel.restype = None
    return parallel


@lru_cache(maxsize=1)
def sources() -> str:
    """A digest of this package's sources. numba keeps compiled programs on disk, but only notices changes in the file
    of the program itself."""
    texts = [path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))]
    return sha256(b"".join(texts)).hexdigest()
