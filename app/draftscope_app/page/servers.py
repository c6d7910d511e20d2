"""Servers of other programs that the page may ask: the operator's list, and what is added where the operator allows it.

A page sends names, never addresses, except to add one. Only loopback and listed addresses are ever called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from draftscope.base.errors import DraftscopeError, quoted
from draftscope.drafters.settings import Settings
from draftscope.servers.addresses import named, permitted
from draftscope.servers.inside.recording import recorded
from draftscope.servers.programs.registry import asked_programs, titles
from draftscope.servers.wire import Wire, WireLimits
from draftscope_app.engine.admission import refuse_long
from draftscope_app.engine.jobs import AuditJob, DrafterChoice, InsideJob, LoadJob, RaceJob, new_id
from draftscope_app.engine.work import POINT_S
from draftscope_app.page.controls import LANE, Controls, lanes

LIST_S = 10.0  # until a server is given up that is asked for its recorded requests
MOST = 16  # servers that a page knows
MAX_NAME = 500  # characters of a name and an address
REPEATS = 3  # counted answers of each server in a race
SAMPLES = 400  # texts of an audit, at most
WEIGHTS = ""  # in place of a server to audit against: the target that is loaded here


class ServersRequest(BaseModel):
    """What the Servers view asks for: a race of `names`, a load of them, or of the first of them an audit or a run that
    is recorded inside it."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    kind: Literal["race", "audit", "load", "inside"]
    names: list[str] = Field(min_length=1, max_length=MOST)
    here: list[Literal["plain", "drafter"]] = Field([], max_length=2)  # lanes of a race that the engine here decodes
    against: str = WEIGHTS  # of an audit: a server's name
    inside: list[str] = Field([], max_length=MOST)  # of a race: those of `names` whose recorders are watched
    request: str = Field("", max_length=MAX_NAME)  # of a run inside: an earlier request's name, else a new one's
    most: int = Field(1, ge=1, le=64)  # of a load: requests at once

    @model_validator(mode="after")
    def _lanes_of_a_race_alone(self) -> Self:
        if self.kind != "race" and (self.here or self.inside):
            raise ValueError("only a race has lanes of this engine, or of recorders beside others")
        if not set(self.inside) <= set(self.names):
            raise ValueError("inside: a server that does not race")
        return self

    @classmethod
    def of(cls, sent: Any) -> ServersRequest:
        """What the page sent; a `DraftscopeError` for anything else."""
        try:
            return cls.model_validate(sent)
        except ValidationError:
            raise DraftscopeError(
                "The page asked for something that cannot be read; reload it and try again."
            ) from None


class KnownServers:
    """Names and addresses. One for each page, so that visitors who may add a server see each other's."""

    def __init__(self, listed: Sequence[tuple[str, str]] = (), can_add: bool = False) -> None:
        self._listed = tuple(url for _, url in listed)
        self._urls = {name: permitted(url, self._listed) for name, url in listed}
        if len(self._urls) < len(listed):
            raise DraftscopeError(
                "Two servers have one name in DRAFTSCOPE_SERVERS; write NAME=URL with different names."
            )
        self.can_add = can_add

    @property
    def names(self) -> list[str]:
        return list(self._urls)

    @property
    def offered(self) -> bool:
        """There is something to show."""
        return self.can_add or bool(self._urls)

    def urls(self, names: Sequence[str]) -> dict[str, str]:
        """Raises `DraftscopeError` for a name that is not known."""
        for name in names:
            if name not in self._urls:
                raise DraftscopeError(f"There is no server '{quoted(name)}' here; reload the page.")
        return {name: self._urls[name] for name in names}

    def recorded(self, name: Any) -> list[str]:
        """The requests that a server's recorder has, the newest first; for strangers none, since others wrote them.

        Calls the server. Raises `DraftscopeError` where it has no recorder.
        """
        url = self.urls([name] if isinstance(name, str) else [""])[name]
        wire = Wire(url, WireLimits(silent=LIST_S))
        try:
            requests = recorded(wire)
            return requests if self.can_add else []
        finally:
            wire.close()

    def add(self, written: Any) -> None:
        """Takes `NAME=URL` or `URL`. Raises `DraftscopeError` where that is not allowed or may not be called."""
        if not self.can_add:
            raise DraftscopeError("This page takes no addresses; its operator lists servers in DRAFTSCOPE_SERVERS.")
        if not isinstance(written, str):
            raise DraftscopeError("Write NAME=http://127.0.0.1:PORT.")
        refuse_long({"address": written}, MAX_NAME)
        name, url = named(written.strip())
        address = permitted(url, self._listed)
        if len(self._urls) >= MOST and name not in self._urls:
            raise DraftscopeError(f"{MOST} servers are listed, which is the most; remove one first.")
        self._urls[name] = address

    def remove(self, name: Any) -> None:
        if self.can_add and isinstance(name, str):
            self._urls.pop(name, None)

    def as_message(self, note: str = "") -> dict[str, Any]:
        """What the page shows. Addresses only where a visitor may add one: then it is the operator's own machine."""
        shown = [{"name": name, "url": url if self.can_add else ""} for name, url in self._urls.items()]
        about = {"programs": titles(asked_programs()), "pointSeconds": POINT_S}
        return {"servers": shown, "canAdd": self.can_add, "note": note, **about}


def listed(written: str) -> tuple[tuple[str, str], ...]:
    """(name, URL) of every server in `DRAFTSCOPE_SERVERS`."""
    return tuple(named(word) for word in written.replace(",", " ").split())


def job(
    wish: ServersRequest, known: KnownServers, controls: Controls, drafter: DrafterChoice | None, max_tokens: int
) -> RaceJob | InsideJob | AuditJob | LoadJob:
    """What the view asked for, with the page's prompt and sampling settings; `drafter` is the chosen one."""
    if wish.kind != "audit" and len(set(wish.names)) < len(wish.names):
        raise DraftscopeError("A server can take part once; choose different ones.")
    names = wish.names if wish.kind != "audit" else [wish.names[0], *([wish.against] if wish.against else [])]
    if wish.kind == "audit" and wish.against == wish.names[0]:
        raise DraftscopeError("A server cannot be audited against itself; choose another one.")
    urls, prompt = known.urls(names), controls["prompt"]
    plain = lanes({**controls, "drafter": "plain"}, None, max_tokens)["plain"]
    every = dict.fromkeys(names, plain)
    if wish.kind == "load":
        return LoadJob(id=new_id(), prompt=prompt, lanes=every, urls=urls, points=points(wish.most))
    if wish.request and not known.can_add:
        raise DraftscopeError("Earlier requests of a server are shown on its operator's own machine only.")
    if wish.kind == "inside":
        first = {name: urls[name] for name in names[:1]}
        return InsideJob(
            id=new_id(), prompt=prompt, lanes=dict.fromkeys(first, plain), urls=first, request=wish.request
        )
    if wish.kind == "audit":
        return AuditJob(id=new_id(), lanes=every, urls=urls, samples=SAMPLES)
    chosen = lanes(controls, drafter, max_tokens).get(LANE, plain) if "drafter" in wish.here else plain
    every |= _here(wish, plain, chosen)
    return RaceJob(id=new_id(), prompt=prompt, lanes=every, urls=urls, inside=tuple(wish.inside), repeats=REPEATS)


def _here(wish: ServersRequest, plain: Settings, chosen: Settings) -> dict[str, Settings]:
    """The lanes of a race that the engine here decodes, by name: plain, and the drafter that was chosen.

    Raises `DraftscopeError` where a server has such a name.
    """
    wanted = [chosen if lane == "drafter" else plain for lane in wish.here]
    lanes = {f"{settings.drafter} (here)": settings for settings in wanted}
    if taken := [name for name in lanes if name in wish.names]:
        raise DraftscopeError(f"A server is called '{quoted(taken[0])}', as a lane of this engine is; rename it.")
    return lanes


def points(most: int) -> tuple[int, ...]:
    """Requests at once of each point of a load: 1, 2, 4 and so on, and the most."""
    return tuple(sorted({*(1 << i for i in range(most.bit_length())), most}))
