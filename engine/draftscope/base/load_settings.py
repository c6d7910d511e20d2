"""The settings of loading: which models, and how. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path


@dataclass(frozen=True)
class LoadSettings:
    """The arguments of `draftscope.load`; see there for their meaning."""

    target: str | Path | None = None
    draft: str | Path | None = None
    dtype: str = "auto"
    device: str = "auto"
    threads: int | None = None
    _: KW_ONLY
    device_map: str | None = None
    revision: str | None = None
    draft_revision: str | None = None
    trust_remote_code: bool = False
    allow_pickle: bool = False
    emulate: str | None = None
    heads: Sequence[str] = ()
    spare_cores: int = 0  # left to other processes when the number of threads is measured
    graphs: bool = True  # use CUDA graphs on CUDA
