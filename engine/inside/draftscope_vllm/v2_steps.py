"""What the hooks take from vLLM's V2 runner, as the step that rounds.py reads. On the recorder's thread."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any

import torch
from torch import Tensor

from draftscope_vllm.rounds import VllmStep, VllmVerification


@dataclass
class SampledRows:
    """Rows of some requests of a step, as the sampler has them together. B requests, R rows, K drafted tokens."""

    requests: list[int]  # [B] by the runner's numbers
    logits: Tensor  # [R, V]
    processed: Tensor  # [R, V] after temperature and truncation
    ends: Tensor | None = None  # [B + 1] of each request's rows, from 0; None: nobody drafted, one row each
    drafted: Tensor | None = None  # [R] the token before each row: a drafted one is in the row after its p, or -1
    u: Tensor | None = None  # [R]
    guesses: Tensor | None = None  # [B, K, up to V] the drafter's logits; None: drafts are its best tokens, or copied

    def places(self) -> list[tuple[int, int]]:
        """The first row of each request, and how many tokens were drafted for it."""
        if self.ends is None or self.drafted is None:
            return [(row, 0) for row in range(len(self.logits))]
        tokens = self.drafted.tolist()
        return [
            (first, len(list(takewhile(lambda token: token >= 0, tokens[first + 1 : end]))))
            for first, end in pairwise(self.ends.tolist())
        ]


@dataclass
class RequestRows:
    """Those of one request, which wrote some tokens."""

    rows: SampledRows
    place: int
    first: int
    drafted: int
    written: int

    def of(self, values: Tensor, more: int = 0) -> Tensor:
        """One for each drafted token, and `more`."""
        return values[self.first : self.first + self.drafted + more].cpu()

    def tokens(self) -> Tensor:
        return torch.empty(0) if self.rows.drafted is None else self.of(self.rows.drafted[1:])

    def u(self) -> Tensor:
        """Not a number where nothing was decided: a later draft for that position is compared with the same u."""
        if self.rows.u is None:
            return torch.empty(0)
        decided = torch.arange(self.drafted) < self.written
        return self.of(self.rows.u).where(decided, torch.nan)

    def logits(self) -> tuple[Tensor, Tensor]:
        """The model's, and processed, of all tokens that the drafter knows too: the target may have more."""
        size = None if self.rows.guesses is None else self.rows.guesses.shape[-1]
        return self.of(self.rows.logits, 1)[:, :size], self.of(self.rows.processed, 1)[:, :size]

    def q(self, temperature: float) -> Tensor | None:
        if self.rows.guesses is None:
            return None
        guesses = self.rows.guesses[self.place, : self.drafted].cpu().float()
        return (guesses / (temperature or 1.0)).softmax(-1)


@dataclass
class TakenStep:
    """A step of the runner as its hooks leave it. N requests of it are wanted."""

    batch: int  # requests, all
    names: list[str]  # [N], as the next five
    places: list[int]  # in the batch
    numbers: list[int]  # by which the runner knows them
    temperature: list[float]
    top_k: list[int]
    top_p: list[float]
    processed_elsewhere: bool
    parts: list[SampledRows]  # more than one where the logits are too large for one call
    sampled: Tensor  # [B, up to K + 1]
    counts: Tensor  # [B] of `sampled`; 0: a part of a prompt
    began: float
    made: Any  # an event of the GPU; None on a CPU

    def read(self) -> VllmStep:
        if self.made is not None:
            self.made.synchronize()
        now, places = time.perf_counter(), torch.tensor(self.places)
        written, counts = self.sampled.cpu()[places], self.counts.cpu()[places]
        mine = self._requests(counts.tolist())
        last = torch.tensor([request.drafted + 1 for request in mine]).cumsum(0) - 1
        logits, processed = (torch.cat(some) for some in zip(*(request.logits() for request in mine), strict=True))
        rows = torch.ones(len(logits), dtype=torch.bool).index_fill_(0, last, False).nonzero().flatten()
        sampled = any(self.temperature)
        seen = VllmVerification(
            drafted=torch.cat([request.tokens() for request in mine]).long(),
            counts=[request.drafted for request in mine],
            q=self._q(mine) if sampled else None, processed=processed[rows],
            u=torch.cat([request.u() for request in mine]) if sampled else None,
        )  # fmt: skip
        return VllmStep(
            requests=self.names, temperature=self.temperature, top_k=self.top_k, top_p=self.top_p,
            skipped=(counts == 0).tolist(), wanted=[True] * len(mine), ms=1000 * (now - self.began), at=1000 * now,
            logits=logits, processed_elsewhere=self.processed_elsewhere, last=processed[last], verification=seen,
            rows=rows, last_rows=last, batch=self.batch,
            written=written.masked_fill(torch.arange(written.shape[1]) >= counts[:, None], -1),
        )  # fmt: skip

    def _q(self, mine: list[RequestRows]) -> Tensor | None:
        laws = [request.q(heat) for request, heat in zip(mine, self.temperature, strict=True)]
        known = [q for q in laws if q is not None]
        return torch.cat(known) if known else None

    def _requests(self, written: list[int]) -> list[RequestRows]:
        rows_of = {
            number: (part, place, *rows)
            for part in self.parts
            for place, (number, rows) in enumerate(zip(part.requests, part.places(), strict=True))
        }
        return [RequestRows(*rows_of[number], count) for number, count in zip(self.numbers, written, strict=True)]
