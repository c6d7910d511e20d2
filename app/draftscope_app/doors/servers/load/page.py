"""Servers under load: many requests at once."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from draftscope.servers.load_test import MOST
from draftscope_app.doors.servers.load.job import POINT_S, LoadJob
from draftscope_app.doors.servers.requests import PageValues, ServersPage, ServersRequest
from draftscope_app.engine.jobs import new_id


class LoadRequest(ServersRequest):
    kind: Literal["loadtest"]
    most: int = Field(1, ge=1, le=MOST)  # requests at once

    def job(self, page: PageValues) -> LoadJob:
        """1, 2, 4 and so on requests at once, and the most."""
        urls, plain = self.urls(page), page.plain
        points = sorted({*(1 << i for i in range(self.most.bit_length())), self.most})
        return LoadJob(
            id=new_id(), prompt=page.prompt, lanes=dict.fromkeys(urls, plain), urls=urls, points=tuple(points)
        )


class Page(ServersPage):
    kind: ClassVar[str] = "loadtest"
    request = LoadRequest

    @classmethod
    def hand_over(cls) -> dict[str, Any]:
        return {"pointSeconds": POINT_S}
