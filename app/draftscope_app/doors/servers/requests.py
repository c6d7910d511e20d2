"""What the tasks of this door are asked for on the page: servers by their names, with the settings of Watch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from draftscope.base.errors import DraftscopeError
from draftscope.drafters.settings import Settings
from draftscope_app.doors.servers.server_list import MOST, KnownServers, known_of
from draftscope_app.engine.admission import Given, PageRequest
from draftscope_app.engine.jobs import DrafterChoice, Job
from draftscope_app.page.controls import LANE, Controls, lanes
from draftscope_app.page.shared import Shared
from draftscope_app.page.task import CardPage


@dataclass(frozen=True)
class PageValues:
    """What a job with servers is made of: those that are known, and what the visitor has set."""

    known: KnownServers
    controls: Controls
    drafter: DrafterChoice | None  # the chosen one

    @property
    def prompt(self) -> str:
        return str(self.controls["prompt"])

    @property
    def plain(self) -> Settings:
        return lanes({**self.controls, "drafter": "plain"}, None)["plain"]

    @property
    def chosen(self) -> Settings:
        """Of the drafter that is chosen, which may be none."""
        return lanes(self.controls, self.drafter).get(LANE, self.plain)


class ServersRequest(PageRequest, ABC):
    """What the Servers view asks for, of servers by their names."""

    names: list[str] = Field(min_length=1, max_length=MOST)

    @abstractmethod
    def job(self, page: PageValues) -> Job:
        """With the page's prompt and sampling settings. May raise `DraftscopeError`."""

    def urls(self, page: PageValues) -> dict[str, str]:
        """By name; a `DraftscopeError` where a server is named twice."""
        if len(set(self.names)) < len(self.names):
            raise DraftscopeError("A server can take part once; choose different ones.")
        return page.known.urls(self.names)


def page_values(shared: Shared, controls: Controls) -> PageValues:
    """What a visitor has set."""
    return PageValues(shared.site.keep(known_of), controls, shared.drafter(controls["drafter"]))


class ServersPage(CardPage, ABC):
    """A task that asks servers, where the page has some to ask."""

    @property
    def offered(self) -> bool:
        return self.shared.site.keep(known_of).offered

    @property
    def events(self) -> tuple[str, ...]:
        return super().events if self.offered else ()

    @property
    @abstractmethod
    def request(self) -> type[ServersRequest]:
        """What its card sends."""

    def job(self, given: Given, sent: Any, _: str | None) -> Job:
        return self.request.of(sent).job(page_values(self.shared, given))
