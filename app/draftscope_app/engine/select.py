"""Which engine a server has: one in a process of its own, unless a task brings another one for this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from draftscope_app.doors.door import lab
from draftscope_app.engine.beats import SILENT_S

if TYPE_CHECKING:
    from draftscope.base.load_settings import LoadSettings
    from draftscope_app.engine.answers import Engine


def engine(load: LoadSettings, silent_s: float = SILENT_S) -> Engine:
    """Decodes in a process of its own, which is started again when it has not answered for `silent_s`; or where a task
    says that this machine needs it."""
    for part in filter(None, (folder.part("lent") for folder in lab())):
        brought: Engine | None = part.engine(load)
        if brought is not None:
            return brought
    from draftscope_app.engine.process import EngineProcess

    return EngineProcess(load, silent_s=silent_s)
