"""A race of servers, shown as a run; or a run of one of them, as the recorder inside it saw it."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from draftscope.base.errors import DraftscopeError, quoted
from draftscope_app.engine.jobs import InsideJob, RaceJob, new_id
from draftscope_app.page.servers import MAX_NAME, MOST, PageValues, ServersRequest

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


def job(sent: Any, page: PageValues) -> RaceJob | InsideJob:
    """What the page sent as a job. Raises `DraftscopeError` for anything else."""
    inside = isinstance(sent, dict) and sent.get("kind") == "inside"
    return InsideRequest.of(sent).job(page) if inside else RaceRequest.of(sent).job(page)
