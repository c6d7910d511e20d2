"""The exhibits of the museum, as they were audited when they were recorded."""

from __future__ import annotations

import json
from typing import Any

from draftscope.base.assets import assets
from draftscope_app.page.layout import ServerFunction
from draftscope_app.page.task import TaskPage

MUSEUM = assets() / "lessons" / "museum.json"


class Page(TaskPage):
    @classmethod
    def recorded(cls) -> dict[str, Any]:
        return {"museum": exhibits()}

    def functions(self) -> list[ServerFunction]:
        async def museum(_: Any) -> dict[str, Any]:
            return exhibits()

        return [museum]


def exhibits() -> dict[str, Any]:
    """The exhibits, and the bugs that the museum does not have."""
    record: dict[str, Any] = json.loads(MUSEUM.read_text(encoding="utf-8"))
    return record
