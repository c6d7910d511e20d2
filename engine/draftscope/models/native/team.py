"""Runs compiled code on torch's own OpenMP threads, so that two pools of threads never wait for each other's cores.

Within one call the threads meet at barriers; a whole forward is one call. Only OpenMP libraries with GNU's interface
are supported: torch's builds for Linux have one.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import torch
from numba import types

thread = types.ExternalFunction("omp_get_thread_num", types.int32())
threads = types.ExternalFunction("omp_get_num_threads", types.int32())
barrier = types.ExternalFunction("GOMP_barrier", types.void())


@lru_cache(maxsize=1)
def start() -> Any:
    """GNU OpenMP's entry, `GOMP_parallel(function, data, threads, flags)`, from the library that torch has loaded.

    Raises OSError if there is none.
    """
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
