"""What the jobs of this door have in common: servers by name, and how they are opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from draftscope.drafters.settings import Settings
from draftscope_app.engine.jobs import Job

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine
    from draftscope.servers.field import Field

SILENT_S = 60.0  # until a server is given up


class ServersJob(Job):
    """Other programs write the lanes that have an address."""

    urls: dict[str, str]  # lane -> address, never one that a stranger has sent

    @property
    def settings(self) -> Settings:
        """What all servers are asked with."""
        return next(iter(self.lanes.values()))

    @contextmanager
    def opened(self, engine: DecodingEngine, by_weights: bool = True) -> Iterator[Field]:
        """The servers, beside the lanes that the engine itself decodes. `by_weights`: their texts are judged by the
        target that is loaded here. Raises `DraftscopeError` where none of them can be asked."""
        from draftscope.servers.field import Field
        from draftscope.servers.wire import WireLimits

        here = {name: settings for name, settings in self.lanes.items() if name not in self.urls}
        limits = WireLimits(silent=SILENT_S)
        with Field.open(self.urls, engine if by_weights else None, here, limits=limits, draft=engine.draft) as opened:
            yield opened.with_engine_of_servers()
