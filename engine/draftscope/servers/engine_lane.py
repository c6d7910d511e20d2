"""The engine in this process as a server beside the others: a chunk is a round."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from draftscope.decode.lab import Lab
from draftscope.drafters.settings import Settings
from draftscope.servers.adapter import Chunk, Counted, Finish, Identity, Message, Offers, Request, Server

OFFERS = Offers(counters=False, counts_by_request=True, bursts_are_chunks=True)


class EngineLane(Server):
    """A drafter of this engine. One request at a time: the models are shared."""

    def __init__(self, lab: Lab, drafter: str) -> None:
        self._lab = lab
        self._drafter = drafter
        self.identity = Identity(
            url="this process",
            kind="draftscope",
            version=None,
            model=drafter,
            weights=lab.target.name,
            context=lab.target.context,
            vocabulary=lab.target.vocabulary,
            offers=OFFERS,
        )

    def stream(self, request: Request) -> Iterator[Chunk]:
        settings = Settings.of(
            drafter=self._drafter,
            max_new_tokens=request.max_tokens,
            seed=request.seed,
            temperature=request.temperature,
            top_k=request.top_k,
            top_p=request.top_p,
            min_p=request.min_p,
            stop=request.stop,
        )
        session = self._lab.session_of([list(request.ids)], settings, (0,), ends=not request.ignore_eos)
        transcript = session.transcripts[0]
        tokens, characters, waiting = 0, 0, None
        drafted: list[int] = []
        accepted: list[int] = []
        for step in session.steps():
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

    def counters(self) -> Counted | None:
        return None

    def tokenize(self, text: str) -> tuple[int, ...]:
        return tuple(self._lab.tokenizer.encode(text, add_special_tokens=False))

    def detokenize(self, ids: Sequence[int]) -> str:
        return str(self._lab.tokenizer.decode(list(ids)))

    def render(self, messages: Sequence[Message]) -> tuple[int, ...]:
        turns = [{"role": each.role, "content": each.content} for each in messages]
        return self.tokenize(self._lab.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))

    def close(self) -> None:
        """The models belong to whoever loaded them."""


def _counted(drafted: Sequence[int], accepted: Sequence[int]) -> Counted:
    return Counted(
        rounds=len(drafted),
        drafted=sum(drafted),
        accepted=sum(accepted),
        by_position=tuple(sum(each > i for each in accepted) for i in range(max(accepted, default=0))),
        accepted_per_round=tuple(accepted),
        drafted_per_round=tuple(drafted),
    )
