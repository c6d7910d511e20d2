"""Where a server decodes: on ZeroGPU, or on a machine of its own; and which engine that needs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from draftscope_app.engine.beats import SILENT_S

if TYPE_CHECKING:
    from draftscope.base.load_settings import LoadSettings
    from draftscope_app.engine.answers import Engine

Profile = Literal["zero", "own"]


def profile() -> Profile:
    """ZeroGPU announces itself in the environment."""
    return "zero" if os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true") else "own"


def engine(load: LoadSettings, silent_s: float = SILENT_S) -> Engine:
    """Decodes in a process of its own, which is started again when it has not answered for `silent_s`; on ZeroGPU in
    this process, the only one that is lent a GPU."""
    if profile() == "zero":
        import spaces  # before torch, which it prepares

        from draftscope_app.engine.zero import ZeroEngine

        return ZeroEngine(load, spaces.GPU, place="ZeroGPU, lent for each run")
    from draftscope_app.engine.process import EngineProcess

    return EngineProcess(load, silent_s=silent_s)
