"""Who is looking at the page: each visitor's run in progress, and the run that their page shows.

A page that is reloaded is a new session. It finds its visitor again by a random token, which the browser keeps for the
tab; for so long (`AWAY_S`) the run of a page that was closed goes on.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Any

from draftscope.base.errors import DraftscopeError
from draftscope_app.engine.admission import UNREADABLE
from draftscope_app.engine.answers import Answer, Log, later
from draftscope_app.engine.config import Limits
from draftscope_app.engine.jobs import Asker

MAX_VISITORS = 256
AWAY_S = 30.0  # how long a closed page's visitor is kept, and with them their job
TOKEN = re.compile(r"[0-9a-f]{32,64}")  # 128 bits or more, so that nobody can guess another tab's


@dataclass
class Visitor:
    """One open page."""

    shown: Log = field(default_factory=Log)  # the run that it shows
    cards: dict[str, Answer] = field(default_factory=dict)  # the latest measurement of each kind
    latest: Answer | None = None  # of all that it asked for
    calls: set[Answer] = field(default_factory=set)  # of the API, beside it
    token: str = ""  # of the tab, by which it is found again after a reload; empty: it cannot be
    left_at: float | None = None  # when the page was closed, on the monotonic clock

    def replace(self, answer: Answer | None) -> None:
        """A new job takes the place of the one in progress."""
        if self.latest is not None:
            self.latest.stop()
        self.latest = answer
        if answer is not None and not answer.job.is_run:
            self.cards[answer.job.kind] = answer

    @property
    def keep_s(self) -> float:
        """How long a job goes on that nobody reads any more."""
        return AWAY_S if self.token else 0.0

    def leave(self) -> None:
        """The page was closed. Whatever it asked for goes on for a while, in case of a reload."""
        self.left_at = left = time.monotonic()
        for answer in list(self.calls):
            answer.stop()
        if self.active is not None and self.token:
            later(AWAY_S, lambda: self.replace(None) if self.left_at == left else None)
        else:
            self.replace(None)

    @contextmanager
    def call(self, answer: Answer) -> Iterator[None]:
        """A job that this visitor waits for in one call."""
        self.calls.add(answer)
        try:
            yield
        finally:
            self.calls.discard(answer)

    @property
    def active(self) -> Answer | None:
        return self.latest if self.latest is not None and not self.latest.over else None

    @property
    def size(self) -> int:
        """Bytes of what is kept of it."""
        return self.shown.size + sum(answer.log.size for answer in self.cards.values())

    def forget(self) -> None:
        """Makes room for others."""
        self.shown = Log(removed=True)
        self.cards.clear()

    @property
    def idle(self) -> bool:
        """Nothing of this visitor's is decoded or waits."""
        return self.active is None and not self.calls


class Visitors:
    """Visitors by Gradio's session hash. A program may use many and never say that it left, so both the number of
    visitors and the size of their runs are bounded: the visitors idle longest are removed first."""

    def __init__(self, most: int = MAX_VISITORS, max_bytes: int = Limits.max_kept_mb * 2**20) -> None:
        self._visitors: dict[str, Visitor] = {}  # the one heard of last stands last
        self._most, self._max_bytes = most, max_bytes
        self._lock = threading.Lock()

    def of(self, session: str | None) -> Visitor:
        """The visitor of a session. A call without a session is a visitor of its own, whom nobody else can be."""
        if not session:
            return Visitor()
        with self._lock:  # listeners run in threads
            known = self._visitors.pop(session, None)
            return self._put(session, known or Visitor())

    def claim(self, session: str, token: str) -> Visitor:
        """The visitor whose tab has this token: the one from before a reload, if there is one, else the session's own.

        Raises `DraftscopeError` for a token that could be guessed.
        """
        if not TOKEN.fullmatch(token):
            raise DraftscopeError(UNREADABLE)
        if not session:
            return Visitor()
        with self._lock:
            current = self._visitors.pop(session, None)
            before = next((name for name, one in self._visitors.items() if compare_digest(one.token, token)), None)
            known = self._visitors.pop(before) if before else None
            if known is not None and current is not None and current.latest is not None:  # a run was started meanwhile
                known.replace(None)
                known = None
            visitor = self._put(session, known or current or Visitor())
            visitor.token = token
            return visitor

    def _put(self, session: str, visitor: Visitor) -> Visitor:
        """The visitor is the one heard of last. Under the lock."""
        visitor.left_at = None
        self._visitors[session] = visitor
        now = time.monotonic()
        gone = [s for s, one in self._visitors.items() if one.idle and now - (one.left_at or now) > AWAY_S]
        for name in gone:
            del self._visitors[name]
        if len(self._visitors) > self._most:
            idle = next((name for name, one in self._visitors.items() if one.idle and one is not visitor), None)
            if idle is not None:
                del self._visitors[idle]
        self._make_room(visitor)
        return visitor

    def show(self, session: str | None, shown: Log) -> None:
        """A visitor's page shows another run from now on."""
        self.of(session).shown = shown
        self.of(session)  # makes room for it

    def left(self, session: str | None) -> None:
        """A page was closed, or is being reloaded."""
        with self._lock:
            visitor = self._visitors.get(session or "")
            if visitor is not None and not visitor.token:
                del self._visitors[session or ""]
        if visitor is not None:
            visitor.leave()

    def left_tab(self, token: str) -> None:
        """The page with this tab's token was closed, or is being reloaded."""
        with self._lock:
            known = TOKEN.fullmatch(token) and [v for v in self._visitors.values() if compare_digest(v.token, token)]
        for visitor in known or ():
            visitor.leave()

    def models_changed(self) -> None:
        """Runs so far were decoded by other models and cannot be forked any more."""
        with self._lock:
            for visitor in self._visitors.values():
                visitor.shown.run = ""

    def __len__(self) -> int:
        return len(self._visitors)

    def _make_room(self, latest: Visitor) -> None:
        """Removes runs of idle visitors, the longest unheard of first, until all fit; never the `latest` visitor's."""
        size = sum(visitor.size for visitor in self._visitors.values())
        for visitor in self._visitors.values():
            if size <= self._max_bytes:
                return
            if visitor.size and visitor.idle and visitor is not latest:
                size -= visitor.size
                visitor.forget()


def asker_of(request: Any, session: str | None) -> Asker:
    """The visitor behind a request of Gradio's: a session of the page, or, without one, all calls of an address."""
    client = getattr(request, "client", None)
    return Asker(str(getattr(client, "host", "") or ""), session or "")
