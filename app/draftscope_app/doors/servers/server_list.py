"""Servers of other programs that the page may ask: the operator's list, and what is added where the operator allows it.

A page sends names, never addresses, except to add one. Only loopback and listed addresses are ever called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from draftscope.base.admit import admit
from draftscope.base.errors import DraftscopeError, quoted
from draftscope.servers.addresses import named, permitted
from draftscope.servers.inside.recording import recorded
from draftscope.servers.programs.program_list import asked_programs, titles
from draftscope.servers.wire import Wire, WireLimits
from draftscope_app.doors.servers.look import Looks
from draftscope_app.doors.servers.variables import Variables
from draftscope_app.engine.site import Site

LIST_S = 10.0  # until a server is given up that is asked for its recorded requests
MOST = 16  # servers that a page knows
MAX_NAME = 500  # characters of a name and an address


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
        self._looks = Looks()

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
        requests = recorded(Wire(url, WireLimits(silent=LIST_S)))
        return requests if self.can_add else []

    def look(self, name: Any) -> dict[str, Any]:
        """What answers there, for a sentence beside its name. On a page for others nothing is asked for it: a server is
        then called by whoever races it, as its operator allows. Raises `DraftscopeError` for a name that is not known.
        """
        url = self.urls([name] if isinstance(name, str) else [""])[name]
        if not self.can_add:
            return {"answers": None, "ms": None, "words": "listed by whoever runs this page"}
        return self._looks.look(url, self._listed)

    def add(self, written: Any) -> None:
        """Takes `NAME=URL` or `URL`. Raises `DraftscopeError` where that is not allowed or may not be called."""
        if not self.can_add:
            raise DraftscopeError("This page takes no addresses; its operator lists servers in DRAFTSCOPE_SERVERS.")
        if not isinstance(written, str):
            raise DraftscopeError("Write NAME=http://127.0.0.1:PORT.")
        admit({"address": written}, MAX_NAME)
        name, url = named(written.strip())
        address = permitted(url, self._listed)
        if len(self._urls) >= MOST and name not in self._urls:
            raise DraftscopeError(f"{MOST} servers are listed, which is the most; remove one first.")
        self._urls[name] = address

    def remove(self, name: Any) -> None:
        if self.can_add and isinstance(name, str):
            self._looks.forget(self._urls.pop(name, ""))

    def as_message(self, note: str = "") -> dict[str, Any]:
        """What the page shows. Addresses only where a visitor may add one: then it is the operator's own machine."""
        shown = [{"name": name, "url": url if self.can_add else ""} for name, url in self._urls.items()]
        programs = titles(asked_programs())
        return {"servers": shown, "canAdd": self.can_add, "note": note, "programs": programs}


def listed(written: str) -> tuple[tuple[str, str], ...]:
    """(name, URL) of every server in `DRAFTSCOPE_SERVERS`."""
    return tuple(named(word) for word in written.replace(",", " ").split())


def known_of(site: Site) -> KnownServers:
    """Those of a site, for all of its visitors; none where asking them would hold a lent GPU."""
    listing = listed(site.environment.of(Variables).servers) if site.own_process else ()
    return KnownServers(listing, lets_add(site))


def lets_add(site: Site) -> bool:
    """Whether visitors may add a server's address: only on their own machine, whatever else the operator allows."""
    return site.own_machine and site.environment.load_models is not False
