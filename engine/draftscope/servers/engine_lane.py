"""The engine in this process as a server beside the others: a chunk is a round."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from draftscope.base.machine import own_version
from draftscope.base.progress import Progress
from draftscope.base.steps import Steps
from draftscope.decode.availability import refuse_unavailable
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.lane import Lane
from draftscope.decode.prompt import EncodedPrompt
from draftscope.decode.session import Step
from draftscope.decode.start import run_start
from draftscope.drafters.settings import Settings
from draftscope.models.loading.chat import in_template
from draftscope.servers.adapter import Chunk, Counted, Finish, Identity, Message, Offers, Request, Server
from draftscope.trace.events import RunStart

OFFERS = Offers(bursts_are_chunks=True)


class EngineLane(Server):
    """A drafter of this engine, with its own options. One request at a time: the models are shared."""

    def __init__(self, engine: DecodingEngine, settings: Settings) -> None:
        """`settings` say who drafts, and how; what a request asks for takes the place of the rest.

        Raises `DraftscopeError` for a drafter that cannot run here.
        """
        lane = Lane.of(engine, settings)
        refuse_unavailable(engine, lane.info)
        self._lab = engine
        self._settings = lane.settings.model_dump()
        self._decoding = threading.Lock()
        self._closed = False
        self.identity = Identity(
            url="this process",
            kind="draftscope",
            version=own_version(),
            model=lane.info.name,
            weights=engine.target.name,
            context=engine.target.context,
            offers=OFFERS,
        )

    def measuring(self, request: Request) -> Steps[Progress, object]:
        """What its drafter chooses by, measured if it was not before: outside the race, whose thread takes no turns."""
        return self._lab.measuring(Lane.of(self._lab, self._applied(request)))

    def stream(self, request: Request) -> Iterator[Chunk]:
        session = self._lab.start_batch([list(request.ids)], self._applied(request), (0,), ends=not request.ignore_eos)
        transcript = session.transcripts[0]
        tokens, characters, waiting = 0, 0, None
        drafted: list[int] = []
        accepted: list[int] = []
        for step in self._rounds(session.steps()):
            at = time.monotonic()
            if waiting is not None:
                yield waiting
            drafted.append(step.tree.nodes)
            accepted.append(len(step.paths[0]))
            waiting = Chunk(ids=tuple(transcript.tokens[tokens:]), text=transcript.text[characters:], at=at)
            tokens, characters = len(transcript.tokens), len(transcript.text)
        if waiting is not None:
            finish: Finish = "length" if tokens >= request.max_tokens else "stop"
            counted = _counted(drafted, accepted) if sum(drafted) else None
            yield replace(waiting, finish=finish, counted=counted, written=tokens)

    def start(self, prompt: EncodedPrompt, request: Request, run: str, lane: str) -> RunStart:
        """The first event of a lane of a trace: the drafter, its options, and the models that take part."""
        return run_start(self._lab, Lane.of(self._lab, self._applied(request)), prompt, run, lane)

    def _applied(self, request: Request) -> Settings:
        return Settings.of(
            **self._settings
            | {
                "max_new_tokens": request.max_tokens, "seed": request.seed, "temperature": request.temperature,
                "top_k": request.top_k, "top_p": request.top_p, "min_p": request.min_p, "stop": request.stop,
            }
        )  # fmt: skip

    def _rounds(self, steps: Iterator[Step]) -> Iterator[Step]:
        """The session's rounds; none after `close`."""
        while True:
            with self._decoding:
                step = None if self._closed else next(steps, None)
            if step is None:
                return
            yield step

    def tokenize(self, text: str) -> tuple[int, ...]:
        return tuple(self._lab.tokenizer.encode(text, add_special_tokens=False))

    def detokenize(self, ids: Sequence[int]) -> str:
        return str(self._lab.tokenizer.decode(list(ids)))

    def render(self, messages: Sequence[Message]) -> tuple[int, ...]:
        turns = [{"role": message.role, "content": message.content} for message in messages]
        return self.tokenize(in_template(self._lab.tokenizer, turns, self._lab.target.name))

    def close(self) -> None:
        """Waits for the current round, which a race that was stopped leaves to its thread; no further one begins.

        The models belong to whoever loaded them.
        """
        self._closed = True
        with self._decoding:
            pass


def _counted(drafted: Sequence[int], accepted: Sequence[int]) -> Counted:
    return Counted(
        rounds=len(drafted),
        drafted=sum(drafted),
        accepted=sum(accepted),
        by_position=tuple(sum(length > i for length in accepted) for i in range(max(accepted, default=0))),
        accepted_per_round=tuple(accepted),
        drafted_per_round=tuple(drafted),
    )
