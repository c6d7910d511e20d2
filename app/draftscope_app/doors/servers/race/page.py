"""A race of servers, shown as a run."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from draftscope.base.errors import DraftscopeError, quoted
from draftscope_app.doors.servers.race.job import RaceJob
from draftscope_app.doors.servers.requests import PageValues, ServersRequest, page_values
from draftscope_app.doors.servers.server_list import MOST, known_of
from draftscope_app.engine.admission import Given
from draftscope_app.engine.jobs import new_id
from draftscope_app.page.task import Core, TaskPage

REPEATS = 3  # counted answers of each server


class RaceRequest(ServersRequest):
    kind: Literal["race"]
    here: list[Literal["plain", "drafter"]] = Field([], max_length=2)  # lanes that the engine here decodes
    inside: list[str] = Field([], max_length=MOST)  # those of `names` whose recorders are watched

    @model_validator(mode="after")
    def _watches_who_races(self) -> Self:
        if not set(self.inside) <= set(self.names):
            raise ValueError("inside: a server that does not race")
        return self

    def job(self, page: PageValues) -> RaceJob:
        urls, plain = self.urls(page), page.plain
        wanted = [page.chosen if lane == "drafter" else plain for lane in self.here]
        here = {f"{settings.drafter} (here)": settings for settings in wanted}
        if taken := [name for name in here if name in urls]:
            raise DraftscopeError(f"A server is called '{quoted(taken[0])}', as a lane of this engine is; rename it.")
        return RaceJob(
            id=new_id(), prompt=page.prompt, lanes=dict.fromkeys(urls, plain) | here, urls=urls,
            inside=tuple(self.inside), repeats=REPEATS,
        )  # fmt: skip


class Page(TaskPage):
    @property
    def events(self) -> tuple[str, ...]:
        return ("race",) if self.shared.site.keep(known_of).offered else ()

    def attach(self, core: Core) -> None:
        if self.events:
            core.runs.attach_run(core.widgets.instrument.race, self.job)

    def job(self, given: Given, sent: Any) -> RaceJob:
        return RaceRequest.of(sent).job(page_values(self.shared, given))
