"""The instrument's own functions for a test's scripts: `Inside.formatProb(0.5)`.

A page shows only what host/public.js names. Tests bring a second copy of every module below host/ along: functions of
their arguments give there what they give on the page, and what a module remembers is not shared. It begins when a test
first asks for it, which most do not.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from draftscope.base.assets import assets
from draftscope.trace.linker import link
from draftscope_app.serve.doors import page_doors

ROOT = assets() / "instrument"
WHEN_ASKED = """Object.defineProperty(window, "Inside", {{ configurable: true, get() {{
    const value = Object.assign({{}}, ...Object.values({linked}));
    Object.defineProperty(window, "Inside", {{ value }});
    return value;
}} }});"""


@cache
def script() -> str:
    """`window.Inside`: every export of every module below host/, and of those of the tasks but their cards."""
    modules = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.js") if path.parent.name != "host")
    mounts = {mount: folder for door in page_doors() for mount, folder in door.cards.items()}
    modules += [
        f"{mount}/{path.relative_to(folder).as_posix()}" for mount, folder in mounts.items() for path in sources(folder)
    ]
    return WHEN_ASKED.format(linked=link(ROOT, *modules, mounts=mounts))


def sources(folder: Path) -> list[Path]:
    """The modules of a task that the page has, not those of its screens; those of a door's own folder are the tasks'
    too."""
    paths = folder.rglob("*.js") if "task.py" in os.listdir(folder) else ()
    return sorted(path for path in paths if path.name != "card.js" and path.parent.name != "screens")
