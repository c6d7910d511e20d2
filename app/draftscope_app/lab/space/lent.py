"""On ZeroGPU a GPU is lent to the page's own process alone."""

from __future__ import annotations

from draftscope.base.load_settings import LoadSettings
from draftscope_app.engine.answers import Engine
from draftscope_app.lab.space.variables import Variables


def on_zero() -> bool:
    """ZeroGPU announces itself in the environment."""
    return Variables.read().zero.lower() in ("1", "t", "true")


def engine(load: LoadSettings) -> Engine | None:
    if not on_zero():
        return None
    import spaces  # before torch, which it prepares

    from draftscope_app.lab.space.zero import ZeroEngine

    return ZeroEngine(load, spaces.GPU, place="ZeroGPU, lent for each run")
