"""The audit of a server, against another one or the target that is loaded here."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from draftscope.base.errors import DraftscopeError
from draftscope_app.doors.servers.audit.job import AuditJob
from draftscope_app.doors.servers.requests import PageValues, ServersPage, ServersRequest
from draftscope_app.engine.jobs import new_id
from draftscope_app.page.controls import names

SAMPLES = 400  # texts, at most


class AuditRequest(ServersRequest):
    kind: Literal["audit"]
    names: list[str] = Field(min_length=1, max_length=1)
    against: str = ""  # a server's name; empty: the target that is loaded here

    def job(self, page: PageValues) -> AuditJob:
        if self.against in self.names:
            raise DraftscopeError("A server cannot be audited against itself; choose another one.")
        urls = page.known.urls([*self.names, *([self.against] if self.against else [])])
        return AuditJob(id=new_id(), lanes=dict.fromkeys(urls, page.plain), urls=urls, samples=SAMPLES)


class Page(ServersPage):
    kind: ClassVar[str] = "audit"
    request = AuditRequest
    reads = tuple(name for name in names() if name != "prompt")
