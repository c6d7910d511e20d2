"""Compiling with numba, also where nothing can be kept on the disk. Importing this module does not import numba."""

from __future__ import annotations

from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import TypeVar

T = TypeVar("T")


def kept_or_not(compiled: Callable[[], T]) -> T:
    """What `compiled` compiles. Where numba can keep nothing on the disk (it is full, or the package's folder and the
    user's are read-only), it compiles for this process alone, in a folder that is gone afterwards."""
    from numba.core import config

    try:
        return compiled()
    except (RuntimeError, OSError):
        before = config.CACHE_DIR
        with TemporaryDirectory(prefix="draftscope-") as folder:
            config.CACHE_DIR = folder
            try:
                return compiled()
            finally:
                config.CACHE_DIR = before
