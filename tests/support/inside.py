"""The instrument's own functions for a test's scripts: `Inside.formatProb(0.5)`.

A page shows only what host/public.js names. Tests bring a second copy of every module below host/ along: functions of
their arguments give there what they give on the page, and what a module remembers is not shared.
"""

from __future__ import annotations

from functools import cache

from draftscope.base.assets import assets
from draftscope.trace.linker import link

ROOT = assets() / "instrument"


@cache
def script() -> str:
    """`window.Inside`: every export of every module below host/."""
    modules = sorted(
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.js")
        if path.parent.name not in ("host", "classroom")
    )
    return f"window.Inside = Object.assign({{}}, ...Object.values({link(ROOT, *modules)}));"
