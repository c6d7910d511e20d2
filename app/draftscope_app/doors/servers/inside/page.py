"""A run of a server, as the recorder inside it saw it."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from pydantic import Field

from draftscope.base.errors import DraftscopeError
from draftscope_app.doors.servers.inside.job import InsideJob
from draftscope_app.doors.servers.requests import PageValues, ServersRequest, page_values
from draftscope_app.doors.servers.server_list import MAX_NAME, KnownServers, known_of
from draftscope_app.engine.admission import Given
from draftscope_app.engine.jobs import new_id
from draftscope_app.page.layout import ServerFunction
from draftscope_app.page.task import Core, TaskPage


class InsideRequest(ServersRequest):
    kind: Literal["inside"]
    names: list[str] = Field(min_length=1, max_length=1)
    request: str = Field("", max_length=MAX_NAME)  # an earlier request's name, else a new one's

    def job(self, page: PageValues) -> InsideJob:
        if self.request and not page.known.can_add:
            raise DraftscopeError("Earlier requests of a server are shown on its operator's own machine only.")
        urls = self.urls(page)
        lanes = dict.fromkeys(urls, page.plain)
        return InsideJob(id=new_id(), prompt=page.prompt, lanes=lanes, urls=urls, request=self.request)


class Page(TaskPage):
    @property
    def events(self) -> tuple[str, ...]:
        return ("inside",) if self.shared.site.keep(known_of).offered else ()

    def functions(self) -> list[ServerFunction]:
        known = self.shared.site.keep(known_of)

        async def recorded(name: Any) -> dict[str, Any]:
            return await asyncio.to_thread(answered, known, name)

        return [recorded]

    def attach(self, core: Core) -> None:
        if self.events:
            core.runs.attach_run(core.widgets.instrument.inside, self.job)

    def job(self, given: Given, sent: Any) -> InsideJob:
        return InsideRequest.of(sent).job(page_values(self.shared, given))


def answered(known: KnownServers, name: Any) -> dict[str, Any]:
    """The requests that the recorder inside a server has, and the names of all servers; or why there are none."""
    try:
        return {"recorded": known.recorded(name), "servers": known.names}
    except DraftscopeError as error:
        return {"note": str(error)}
