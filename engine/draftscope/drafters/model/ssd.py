"""Speculative speculative decoding: while the target verifies, the draft model drafts for the likely outcomes.

SSD (2603.03251). An outcome is the number of accepted tokens and the token after them. Chains are prepared for the most
likely outcomes, all at once as branches of one tree on the draft's cache. If the actual outcome is among them, the next
round already has its draft. The more accepted tokens an outcome needs, the fewer are prepared (geometric fan-out).

It runs in its own thread, on CUDA in its own stream, and every round waits for it to end: so the overlap with the
target is real and measured, not simulated. Exact: a prepared chain is drawn with uniforms of its own tier before the
outcome is known and independently of it; only the outcome decides whether it is used; a miss drafts with the round's
uniforms.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from draftscope.base.errors import DraftscopeError
from draftscope.drafters.drafter import DrafterInfo, Outcome, Parts, State
from draftscope.drafters.length import PRIOR
from draftscope.drafters.model.draft_model import DraftModel
from draftscope.drafters.options import SsdOptions
from draftscope.trace.events import Annotation, Prefetch
from draftscope.verify.drawing import draw
from draftscope.verify.tree import DraftTree, chain, even

TIER = 3  # of the uniforms for prepared drafts
SPREAD = 1.0  # r of the paper: how slowly more tokens at one slot raise the probability of a hit


@dataclass(frozen=True)
class Prepared:
    """Chains for n outcomes: in outcome j, `slots[j]` tokens are accepted and `next[:, j]` follows them."""

    slots: list[int]
    next: Tensor  # [B, n]
    tokens: Tensor  # [B, n, G]
    distributions: Tensor  # [B, n, G, V]
    busy_ms: float


class Ssd(DraftModel):
    """A chain of `gamma` tokens: prepared if the outcome was among the likely ones, else drafted when needed."""

    shares = False

    def __init__(self, parts: Parts[SsdOptions]) -> None:
        super().__init__(parts, even((1,) * parts.options.gamma), sampled=True)
        if not self._model.trees:
            raise DraftscopeError(f"SSD drafts in branches, and '{self._model.name}' takes no trees; choose 'draft'.")
        self._gamma, self._fan = parts.options.gamma, parts.options.prefetch
        self._cache = self._model.cache(parts.batch, parts.capacity + self._gamma * (1 + self._fan))
        self._streams = parts.streams.below(TIER)
        self._greedy = parts.sampling.greedy
        self._round = 0
        self._worker = ThreadPoolExecutor(1, "ssd")
        self._side: Any = torch.cuda.Stream(self._device) if self._device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._running: Future[Prepared] | None = None
        self._ready: Prepared | None = None
        self._hits: list[int | None] = []  # for each sequence the prepared outcome that occurred, None for a miss
        self._due: list[int] = []  # the length of each text at which its hit may be used
        self._accepted, self._verified = PRIOR[0] * PRIOR[1], PRIOR[1]  # drafted tokens accepted, and those verified
        self._note: Prefetch | None = None

    def propose(self, state: State, depth: int) -> DraftTree:
        self._round, lengths = state.round, [len(text) for text in state.texts]
        if self._due and self._ready is not None:  # a text that grew without this drafter is a miss; one that has
            now = zip(self._hits, lengths, self._due, strict=True)  # ended is shorter than due and needs no draft
            self._hits = [hit if length == due else 0 if length < due else None for hit, length, due in now]
        self._due = lengths
        if self._ready is None or depth == 0 or all(hit is None for hit in self._hits):
            return super().propose(state, depth)
        began, count = perf_counter(), min(self._gamma, depth)
        picked = torch.tensor([hit or 0 for hit in self._hits], device=self._device)
        batch = torch.arange(len(picked), device=self._device)
        tokens, distributions = (
            self._ready.tokens[batch, picked, :count],
            self._ready.distributions[batch, picked, :count],
        )
        missed = torch.tensor([hit is None for hit in self._hits], device=self._device)
        fresh = super().propose(state, depth) if any(hit is None for hit in self._hits) else None
        if fresh is not None:
            assert fresh.distributions is not None
            tokens = torch.where(missed[:, None], fresh.tokens, tokens)
            distributions = torch.where(missed[:, None, None], fresh.distributions, distributions)
        times = fresh.forward_ms if fresh is not None else ((perf_counter() - began) * 1e3,)
        return self._chain(tokens, distributions, times)

    def select_rows(self, rows: list[int]) -> bool:
        return False  # what was prepared is for the whole batch

    def overlap_start(self, tree: DraftTree) -> None:
        self._note = self._ready = None
        if tree.nodes < self._gamma or tree.distributions is None:
            return  # the text is about to end
        counts = fan_out(self._fan, tree.nodes, self._accepted / self._verified)
        fan = [min(count, self._vocabulary - 1) for count in counts]
        uniforms = (
            None if self._greedy else self._streams.uniforms(self._round, sum(fan) * self._gamma, self._device).draft
        )
        if self._side is not None:
            self._side.wait_stream(torch.cuda.current_stream(self._device))
        graphs = self._model.graphs
        if graphs is not None and graphs.missed:  # recorded here, because nothing else may run meanwhile
            graphs.missed = False
            self._running = Future()
            self._running.set_result(self._prepare(tree.tokens, tree.distributions, fan, uniforms))
            return
        self._running = self._worker.submit(self._prepare_beside, tree.tokens, tree.distributions, fan, uniforms)

    def observe(self, outcome: Outcome) -> None:
        """Waits for the preparation, and keeps the accepted tokens that the draft has read."""
        self._due = [length + len(path) + 1 for length, path in zip(self._due, outcome.paths, strict=True)]
        real = (~outcome.tree.never_accepted).sum(-1)
        if self._running is None:
            self._learn(outcome.paths, real.tolist())
            self._hits = [None] * len(outcome.paths)
            super().observe(outcome)
            return
        began = perf_counter()
        ready = self._ready = self._running.result()
        if self._side is not None:
            torch.cuda.current_stream(self._device).wait_stream(self._side)
        waited, self._running = (perf_counter() - began) * 1e3, None
        read = torch.cat([ready.next, real[:, None]], 1).tolist()
        self._learn(outcome.paths, [row[-1] for row in read])
        ends = zip([row[:-1] for row in read], outcome.paths, outcome.last, strict=True)
        self._hits = [_hit(ready.slots, row, len(path), last) for row, path, last in ends]
        self._keep(outcome.paths)
        self._note = Prefetch(
            outcomes=len(ready.slots),
            hit=all(hit is not None for hit in self._hits),
            overlap="thread" if self._side is None else "stream",
            busy_ms=ready.busy_ms,
            waited_ms=waited,
        )

    def annotations(self, row: int) -> Sequence[Annotation]:
        note = self._note.model_copy(update={"hit": self._hits[row] is not None}) if self._note is not None else None
        return (*super().annotations(row), *([note] if note is not None else []))

    def _learn(self, paths: Sequence[Sequence[int]], real: Sequence[int]) -> None:
        """How many of its `real` drafted tokens each sequence had verified and accepted."""
        for path, count in zip(paths, real, strict=True):
            self._accepted, self._verified = self._accepted + len(path), self._verified + min(len(path) + 1, count)

    def _keep(self, paths: Sequence[Sequence[int]]) -> None:
        """Keeps the open rows of the accepted tokens, and of the token after them if it was prepared."""
        rows = [
            [*path, *([self._gamma + hit] if hit is not None else [])]
            for path, hit in zip(paths, self._hits, strict=True)
        ]
        count = torch.tensor([len(row) for row in rows], device=self._device)
        self._cached = [cached + len(row) for cached, row in zip(self._cached, rows, strict=True)]
        longest = max(len(row) for row in rows)
        padded = torch.tensor([row + [-1] * (longest - len(row)) for row in rows], dtype=torch.long)
        self._cache.keep(padded.view(len(rows), longest).to(self._device), count, max(self._cached))

    def _prepare_beside(
        self, drafted: Tensor, distributions: Tensor, fan: list[int], uniforms: Tensor | None
    ) -> Prepared:
        """`_prepare` in the thread, which replays graphs but records none."""
        with nullcontext() if self._model.graphs is None else self._model.graphs.only_replays():
            return self._prepare(drafted, distributions, fan, uniforms)

    @torch.inference_mode()
    def _prepare(self, drafted: Tensor, distributions: Tensor, fan: list[int], uniforms: Tensor | None) -> Prepared:
        """Reads the drafted chain [B, G], then drafts a chain for every outcome, level by level."""
        began = perf_counter()
        side: Any = torch.cuda.stream(self._side) if self._side is not None else nullcontext()
        with side:
            table, gamma = self._cache.table, self._gamma
            self._cache.truncate(table.length, table.bound)
            offsets = torch.arange(gamma, device=self._device).expand(len(drafted), -1)
            last = self._distribution(self._model.forward(self._cache, self._readable(drafted), offsets))[:, -1:]
            slots = [slot for slot, count in enumerate(fan) for _ in range(count)]
            outcomes = _outcomes(torch.cat([distributions[:, :gamma], last], 1), drafted, fan)
            tokens, q = self._chains(outcomes, slots, uniforms)
            if self._side is not None:
                self._side.synchronize()
        return Prepared(slots, outcomes, tokens, q, (perf_counter() - began) * 1e3)

    def _chains(self, outcomes: Tensor, slots: list[int], uniforms: Tensor | None) -> tuple[Tensor, Tensor]:
        """Tokens [B, n, G] after each of `outcomes` [B, n], and the distributions [B, n, G, V] that they came from."""
        gamma, n = self._gamma, len(slots)
        above = torch.arange(gamma, device=self._device) < torch.tensor(slots, device=self._device)[:, None]
        diagonal = torch.eye(n, dtype=torch.bool, device=self._device)
        place = torch.tensor(slots, device=self._device)
        token, tokens, distributions = outcomes, [], []
        for level in range(gamma):
            sees = torch.cat([above, *[diagonal] * (level + 1)], 1)
            offsets = (place + level).expand(len(outcomes), -1)
            distribution = self._distribution(
                self._model.forward(self._cache, self._readable(token), offsets, sees[None])
            )
            level_uniforms = uniforms[:, level * n : (level + 1) * n] if uniforms is not None else None
            token = distribution.argmax(-1) if level_uniforms is None else draw(distribution, level_uniforms)
            tokens.append(token)
            distributions.append(distribution)
        return torch.stack(tokens, 2), torch.stack(distributions, 2)

    def _chain(self, tokens: Tensor, distributions: Tensor, times: tuple[float, ...]) -> DraftTree:
        """The chain of every sequence, prepared or fresh, with the distributions that it was drawn from."""
        batch, count = tokens.shape
        slots = torch.arange(count + 1, device=self._device)
        shown_row = torch.where(slots < count, slots, -1).expand(batch, -1)
        origin = [
            tuple(f"{'draft step' if hit is None else 'prefetched'} {depth + 1}" for depth in range(count))
            for hit in self._hits
        ]
        return DraftTree(
            topology=chain(count, batch, self._device),
            tokens=tokens,
            distributions=distributions,
            proposal_row=torch.full_like(shown_row, -1) if self._greedy else shown_row,
            shown_row=shown_row,
            never_accepted=torch.zeros_like(tokens, dtype=torch.bool),
            origin=tuple(origin),
            drawn="none" if self._greedy else "all",
            forward_ms=times,
        )


def fan_out(budget: int, gamma: int, alpha: float) -> list[int]:
    """The number of prepared outcomes for each number k = 0 .. gamma of accepted tokens: about alpha^(k / (1 + r)).

    A fully accepted chain needs no rejection, so its weight is 1 / (1 - alpha) larger.
    """
    alpha = min(max(alpha, 0.05), 0.95)
    weights = [alpha ** (k / (1 + SPREAD)) for k in range(gamma + 1)]
    weights[gamma] *= (1 - alpha) ** (-1 / (1 + SPREAD))
    counts = [0] * (gamma + 1)
    for _ in range(budget):  # the next outcome goes to the k with the largest weight for each outcome that it has
        counts[max(range(gamma + 1), key=lambda k: weights[k] / (counts[k] + 1))] += 1
    return counts


def _outcomes(distributions: Tensor, drafted: Tensor, fan: list[int]) -> Tensor:
    """[B, n]: the `fan[slot]` most likely tokens at each slot of `distributions` [B, G + 1, V], without the drafted
    one."""
    likeliest = []
    for slot, count in enumerate(fan):
        distribution = distributions[:, slot]
        if slot < drafted.shape[1]:  # an outcome at this slot means that its drafted token is rejected
            distribution = distribution.scatter(1, drafted[:, slot : slot + 1], -1.0)
        likeliest.append(distribution.topk(count, -1).indices)
    return torch.cat(likeliest, 1)


def _hit(slots: list[int], following: list[int], accepted: int, last: int) -> int | None:
    """The prepared outcome that occurred: `accepted` tokens and `last` after them. None if it was not prepared."""
    pairs = enumerate(zip(slots, following, strict=True))
    return next((j for j, pair in pairs if pair == (accepted, last)), None)


INFO = DrafterInfo(
    name="ssd",
    title="SSD: drafting ahead while the target verifies",
    paper="speculative speculative decoding, 2603.03251",
    create=Ssd,
    options=SsdOptions,
    needs_draft=True,
)
