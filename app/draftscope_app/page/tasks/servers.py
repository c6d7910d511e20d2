"""What the Servers view asks for: a race, a run seen by the recorder inside a server, an audit, a load."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from draftscope.base.errors import DraftscopeError, quoted
from draftscope.servers.load import MOST as MOST_AT_ONCE
from draftscope_app.engine.admission import PageRequest
from draftscope_app.engine.jobs import AnyJob, AuditJob, InsideJob, LoadJob, RaceJob, new_id
from draftscope_app.page.servers import MAX_NAME, MOST, PageValues

REPEATS = 3  # counted answers of each server in a race
SAMPLES = 400  # texts of an audit, at most


class ServersRequest(PageRequest, ABC):
    """Something about servers, which it names."""

    names: list[str] = Field(min_length=1, max_length=MOST)

    @abstractmethod
    def job(self, page: PageValues) -> AnyJob:
        """With the page's prompt and sampling settings. May raise `DraftscopeError`."""

    def urls(self, page: PageValues) -> dict[str, str]:
        """By name; a `DraftscopeError` where a server is named twice."""
        if len(set(self.names)) < len(self.names):
            raise DraftscopeError("A server can take part once; choose different ones.")
        return page.known.urls(self.names)


class RaceRequest(ServersRequest):
    """A race of servers, shown as a run."""

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
    """A run of one server, as the recorder inside it saw it."""

    kind: Literal["inside"]
    names: list[str] = Field(min_length=1, max_length=1)
    request: str = Field("", max_length=MAX_NAME)  # an earlier request's name, else a new one's

    def job(self, page: PageValues) -> InsideJob:
        if self.request and not page.known.can_add:
            raise DraftscopeError("Earlier requests of a server are shown on its operator's own machine only.")
        urls = self.urls(page)
        lanes = dict.fromkeys(urls, page.plain)
        return InsideJob(id=new_id(), prompt=page.prompt, lanes=lanes, urls=urls, request=self.request)


def race_job(sent: Any, page: PageValues) -> RaceJob | InsideJob:
    """What the page sent as a job. Raises `DraftscopeError` for anything else."""
    inside = isinstance(sent, dict) and sent.get("kind") == "inside"
    return InsideRequest.of(sent).job(page) if inside else RaceRequest.of(sent).job(page)


class AuditRequest(ServersRequest):
    """An audit of a server, against another one or the target that is loaded here."""

    kind: Literal["audit"]
    names: list[str] = Field(min_length=1, max_length=1)
    against: str = ""  # a server's name; empty: the target that is loaded here

    def job(self, page: PageValues) -> AuditJob:
        if self.against in self.names:
            raise DraftscopeError("A server cannot be audited against itself; choose another one.")
        urls = page.known.urls([*self.names, *([self.against] if self.against else [])])
        return AuditJob(id=new_id(), lanes=dict.fromkeys(urls, page.plain), urls=urls, samples=SAMPLES)


class LoadRequest(ServersRequest):
    """Many requests at once."""

    kind: Literal["load"]
    most: int = Field(1, ge=1, le=MOST_AT_ONCE)  # requests at once

    def job(self, page: PageValues) -> LoadJob:
        """1, 2, 4 and so on requests at once, and the most."""
        urls, plain = self.urls(page), page.plain
        points = sorted({*(1 << i for i in range(self.most.bit_length())), self.most})
        return LoadJob(
            id=new_id(), prompt=page.prompt, lanes=dict.fromkeys(urls, plain), urls=urls, points=tuple(points)
        )
