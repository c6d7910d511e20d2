"""The list of servers: which may be asked, and what a visitor adds or removes where that is allowed."""

from __future__ import annotations

import asyncio
from typing import Any

from draftscope.base.errors import DraftscopeError
from draftscope_app.doors.servers.server_list import KnownServers, known_of
from draftscope_app.page.layout import ServerFunction
from draftscope_app.page.task import TaskPage


class Page(TaskPage):
    def functions(self) -> list[ServerFunction]:
        known = self.shared.site.keep(known_of)

        async def servers(message: Any) -> dict[str, Any]:
            return await asyncio.to_thread(answered, known, message)

        async def looks(name: Any) -> dict[str, Any]:
            return await asyncio.to_thread(seen, known, name)

        return [servers, looks]


def seen(known: KnownServers, name: Any) -> dict[str, Any]:
    """What answers at the address of a server."""
    try:
        return known.look(name)
    except DraftscopeError as error:
        return {"answers": False, "ms": None, "words": str(error)}


def answered(known: KnownServers, message: Any) -> dict[str, Any]:
    """The servers that may be asked, after one was added or removed where that is allowed."""
    wanted = message if isinstance(message, dict) else {}
    try:
        if "add" in wanted:
            known.add(wanted["add"])
        if "remove" in wanted:
            known.remove(wanted["remove"])
    except DraftscopeError as error:
        return known.as_message(str(error))
    return known.as_message()
