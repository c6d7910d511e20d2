"""A vLLM's own rounds as a run: of a request while it is written, or of one that its recorder has kept."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any
from uuid import uuid4

from draftscope.base.machine import own_version
from draftscope.base.steps import Cancelled, Steps
from draftscope.base.text import Cut
from draftscope.servers.adapter import Chunk, Finish, Request, Server, ServerError
from draftscope.servers.background import in_background
from draftscope.servers.bursts import Bursts, Raw
from draftscope.servers.inside.decision_audit import ARRIVES_S, PAUSE_S
from draftscope.servers.inside.recording import RecordedRound, read_state
from draftscope.servers.inside.translation import Translation
from draftscope.servers.programs.program_list import title_of
from draftscope.servers.programs.web_server import WebServer
from draftscope.servers.server_race import RaceLane, RacePrompt
from draftscope.servers.wire import Wire
from draftscope.trace.events import AnyEvent, EndReason, Round, RunEnd, RunStart, ServerInfo

SERVER = "server"  # the drafter's name of such a lane
LACKS = "The server's recorder lacks the next round of this answer; ask again when the server has less to do."


def opened(lane: RaceLane, request: str, run: str, raw: Raw | None = None) -> Iterator[AnyEvent]:
    """The rounds that the recorder has of a request. Nothing says how it ended, so the run has no end."""
    wire = _wire(lane.server)
    rounds = [step for step in read_state(wire, request).rounds if step.request == request]
    if not rounds:
        raise ServerError(f"{wire.url} has no rounds of '{request}' any more; its recorder keeps the newest.")
    sampling = {"temperature": rounds[0].temperature, "top_k": rounds[0].top_k, "top_p": rounds[0].top_p}
    translation = Translation(run, lane.name, raw or pieces(lane.server, 0))
    yield _start(lane, run, RacePrompt("", ()), translation, sampling)
    yield from (translation.round(step) for step in rounds)


def written(
    lane: RaceLane, prompt: RacePrompt, request: Request, run: str, raw: Raw | None
) -> Steps[AnyEvent | None, None]:
    """Asks for one text: its rounds as they are recorded, None while nothing comes. The run ends where the answer does,
    or, with what is wrong, where it cannot be drawn any further."""
    sent = replace(request, ids=prompt.ids, name=new_name())
    live = RecordedAnswer(lane.server, sent, run, lane.name, raw or pieces(lane.server, prompt.ids[-1]))
    reason: EndReason
    sampling = {"temperature": request.temperature, "top_k": request.top_k, "top_p": request.top_p}
    more = {"min_p": request.min_p, "seed": request.seed, "max_new_tokens": request.max_tokens}
    live.read()  # refuses where nothing is recorded, before anything is shown
    yield _start(lane, run, prompt, live, sampling | more)

    chunks = in_background(chunk for chunk in lane.server.stream(sent))
    try:
        for chunk in chunks:
            yield from live.flush() if chunk is None else live.take(chunk)
            yield None
        yield from live.end()
        reason, message = live.reason or "cancelled", ""
    except Cancelled:
        reason, message = "cancelled", ""
    except ServerError as error:
        reason, message = "error", str(error)
    finally:
        chunks.close()
    yield end_of(live, reason, message)


def _wire(server: Server) -> Wire:
    """With the limits that the server itself is asked with."""
    return server.wire if isinstance(server, WebServer) else Wire(server.identity.url)


def new_name() -> str:
    """Of a request, by which its server's recorder knows it."""
    return f"draftscope-{uuid4().hex}"


def end_of(lane: Translation | Bursts, reason: EndReason, message: str) -> RunEnd:
    """The end of a lane after what it has shown."""
    return RunEnd(
        run=lane.run, lane=lane.lane, reason=reason, text=lane.text, token_ids=lane.tokens, target_forwards=lane.made,
        end=lane.clock, message=message,
    )  # fmt: skip


def pieces(server: Server, before: int) -> Raw:
    """A token's text as the server writes it after the token `before`, whose text is left out: alone some tokenizers
    drop a token's space."""

    first = server.detokenize([before])

    @cache
    def raw(token: int) -> str:
        return server.detokenize([before, token]).removeprefix(first).encode().decode("latin-1")

    return raw


class RecordedAnswer(Translation):
    """An answer while it arrives, and the rounds that are recorded of it."""

    def __init__(self, server: Server, request: Request, run: str, lane: str, raw: Raw) -> None:
        super().__init__(run, lane, raw)
        self.request, self.wire = request, _wire(server)
        self.answer = list[int]()
        self.reason: Cut | None = None  # for which the answer has ended
        self.after = -1  # number of the latest round that was read
        self.waiting = list[RecordedRound]()  # read before their tokens arrived

    def take(self, chunk: Chunk, at: float | None = None) -> Iterator[Round]:
        """The rounds that are complete with this chunk. `at`: seconds of the reader's clock, on which the first round
        then ends; None: all times are the server's."""
        if at is not None and not self.answer:
            self.first = 1e3 * at
        self.answer += chunk.ids
        self.reason = None if chunk.finish is None else reason_of(chunk.finish, self.request)
        yield from self.flush()

    def flush(self) -> Iterator[Round]:
        """The rounds that are complete by now. Raises `ServerError` where one is missing."""
        self.read()
        yield from self._complete()

    def end(self) -> Iterator[Round | None]:
        """The rounds that were on their way when the answer ended."""
        end = time.monotonic() + ARRIVES_S
        while len(self.tokens) < len(self.answer):
            if time.monotonic() > end:
                raise ServerError(LACKS)
            time.sleep(PAUSE_S)
            yield None
            yield from self.flush()

    def read(self) -> None:
        self.waiting += read_state(self.wire, self.request.name, self.after).rounds
        self.after = self.waiting[-1].number if self.waiting else self.after

    def _complete(self) -> Iterator[Round]:
        """The rounds whose tokens have arrived. The last one may have written more than the answer has."""
        while self.waiting:
            left = self.answer[len(self.tokens) :]
            seen = self.waiting[0].written
            if not left or (len(left) < len(seen) and self.reason is None):
                return
            if left[: len(seen)] != seen[: len(left)]:
                raise ServerError(LACKS)
            ends = self.reason is not None and len(left) <= len(seen)
            yield self.round(self.waiting.pop(0), len(left) if ends else None, self.reason if ends else None)


def reason_of(finish: Finish | None, request: Request) -> Cut:
    """Why an answer ended, by the server's word for it."""
    return "length" if finish == "length" else "stop" if request.stop else "eos"


def _start(
    lane: RaceLane, run: str, prompt: RacePrompt, translation: Translation, settings: dict[str, Any]
) -> RunStart:
    about = lane.server.identity
    server = ServerInfo(
        program=about.kind, title=title_of(about.kind), version=about.version or "", model=about.model, inside=True
    )
    start = start_of(run, lane.name, prompt, settings, server)
    return start.model_copy(update={"prompt_last_raw": translation.raw(prompt.ids[-1]) if prompt.ids else ""})


def start_of(run: str, lane: str, prompt: RacePrompt, settings: dict[str, Any], server: ServerInfo) -> RunStart:
    """The start of a lane that another program writes."""
    return RunStart(
        run=run, lane=lane, draftscope=own_version(), torch="", transformers="", device="", dtype="", threads=0,
        models=[], drafter=SERVER, exact=True, rule="", seed=settings.get("seed", 0),
        settings={"drafter": SERVER, **settings}, prompt=prompt.text,
        rendered=prompt.rendered if prompt.rendered != prompt.text else "", prompt_tokens=len(prompt.ids),
        server=server, created=datetime.now(UTC).isoformat(timespec="seconds"),
    )  # fmt: skip
