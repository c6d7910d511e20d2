"""Turns what the hooks saw in one step into rounds: plain numbers, on the recorder's thread.

That thread shares the interpreter with the engine's, so all rows are computed together and moved to lists once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from draftscope_vllm.laws import Laws, numbers, row_sums

TOGETHER = 1 << 18  # numbers of a distribution, in the rows that are computed together: they stay in a cache

Content = dict[str, Any]


@dataclass
class VllmVerification:
    """What `rejection_sample` was given, and what was drawn in it. N drafted tokens of all requests, V tokens."""

    drafted: Tensor  # [N]
    counts: list[int]  # [B], N in sum
    q: Tensor | None  # [N, V]; None: drafts are the drafter's best tokens, or copied
    processed: Tensor  # [N, V] logits after temperature and truncation
    u: Tensor | None = None  # [N]; None where all requests are greedy
    p: Tensor | None = None  # [N, V]; None where all requests are greedy


@dataclass
class VllmStep:
    """One step of the runner: B requests, R rows of logits."""

    requests: list[str]  # [B]
    temperature: list[float]  # [B]
    top_k: list[int]  # [B], 0: off
    top_p: list[float]  # [B]
    skipped: list[bool]  # [B]: a part of a prompt
    wanted: list[bool]  # [B]
    ms: float  # of the step
    at: float  # ms, on a clock of the server's: the end of the step
    logits: Tensor  # [R, V] as the model gave them
    processed_elsewhere: bool  # penalties and the like: p is not softmax(logits / temperature)
    written: Tensor  # [B, up to K + 1], -1: none
    last: Tensor | None  # [B, V] processed logits of bonus and plain rows; None where all requests are greedy
    verification: VllmVerification | None = None  # None: nobody drafted
    rows: Tensor | None = None  # [N] of logits, for drafted tokens; None: nobody drafted, and each request has one row
    last_rows: Tensor | None = None  # [B] of logits, for bonus and plain tokens
    batch: int = 0  # requests in the step; 0: these


@dataclass
class WritingRequest:
    """A request that wrote tokens in the step."""

    place: int  # in the batch
    tokens: list[int]
    first: int  # of its drafted rows, among those of all requests
    start: int  # the same, among those that are computed together
    count: int  # of its drafted rows

    @property
    def accepted(self) -> int:
        return len(self.tokens) - 1

    @property
    def corrected(self) -> bool:
        return self.accepted < self.count

    @property
    def kind(self) -> str:
        return "plain" if not self.count else "correction" if self.corrected else "bonus"

    def verdict(self, position: int) -> bool | None:
        """None: never decided, as an earlier one was rejected."""
        return None if position > self.accepted else position < self.accepted


def rounds(step: VllmStep) -> list[tuple[str, Content]]:
    """The rounds of a step, by request."""
    return [made for writers in _groups(step) for made in _rounds(step, writers)]


def _groups(step: VllmStep) -> Iterator[list[WritingRequest]]:
    """The requests whose rounds are wanted, as many at a time as are computed together."""
    counts = [0] * len(step.requests) if step.verification is None else step.verification.counts
    group: list[WritingRequest] = []
    first = start = 0
    for place, (tokens, count) in enumerate(zip(step.written.tolist(), counts, strict=True)):
        if step.wanted[place] and not step.skipped[place]:
            if group and (start + count + len(group) + 1) * step.logits.shape[-1] > TOGETHER:
                yield group
                group, start = [], 0
            group.append(WritingRequest(place, [token for token in tokens if token >= 0], first, start, count))
            start += count
        first += count
    if group:
        yield group


def _rounds(step: VllmStep, writers: list[WritingRequest]) -> list[tuple[str, Content]]:
    """In one tensor: p of drafted rows, the laws of bonus and plain tokens, q, and the laws of corrections."""
    direct = [writer for writer in writers if not writer.corrected]
    corrected = [writer for writer in writers if writer.corrected]
    tokens, p, q, u = _drafted_rows(step, writers)
    parts = [p, _direct_laws(step, direct), p[:0] if q is None else q, _corrections(step, corrected, tokens, p, q)]
    laws = Laws(torch.cat(parts))
    drafts, targets, qs = len(p), len(p) + len(direct), 0 if q is None else len(p)
    last = [torch.tensor([writer.tokens[-1] for writer in some], dtype=torch.long) for some in (direct, corrected)]
    target = _targets(step, writers, direct, laws[:targets])
    drawn = _drawn(laws[drafts:], torch.cat([last[0], tokens[:qs], last[1]]))
    drafted = _drafted(tokens, laws[:drafts], laws[targets : targets + drafts] if qs else None, u)
    for row, content in enumerate(drafted):
        content |= {"target": target[row], "draft": drawn[len(direct) + row] if qs else None}
    ends = [end | {"target": seen} for end, seen in zip(drawn, target[drafts:], strict=False)]
    ends += [end | {"target": None} for end in drawn[len(direct) + qs :]]
    ended = {writer.place: end for writer, end in zip(direct + corrected, ends, strict=True)}
    return [(step.requests[writer.place], _round(step, writer, drafted, ended[writer.place])) for writer in writers]


def _round(step: VllmStep, writer: WritingRequest, drafted: list[Content], end: Content) -> Content:
    place, mine = writer.place, drafted[writer.start : writer.start + writer.count]
    return {
        "ms": round(step.ms, 3),
        "at": round(step.at, 3),
        "batch": step.batch or len(step.requests),
        "temperature": step.temperature[place],
        "top_k": step.top_k[place],
        "top_p": step.top_p[place],
        "drafted": [content | {"accepted": writer.verdict(position)} for position, content in enumerate(mine)],
        "kind": writer.kind,
        "next": {"token": writer.tokens[-1], **end},
    }


def _drafted_rows(
    step: VllmStep, writers: list[WritingRequest]
) -> tuple[Tensor, Tensor, Tensor | None, list[float] | list[None]]:
    """Drafted tokens, p, q and u."""
    seen = step.verification
    rows = _drafted_places(writers)
    if seen is None:
        return torch.empty(0, dtype=torch.long), step.logits.new_empty((0, step.logits.shape[-1])).float(), None, []
    p = _rows(seen.processed, rows).softmax(-1, dtype=torch.float32) if seen.p is None else _rows(seen.p, rows)
    u = [None] * len(rows) if seen.u is None else _rows(seen.u, rows).tolist()
    return _rows(seen.drafted, rows).long(), p, None if seen.q is None else _rows(seen.q, rows), u


def _direct_laws(step: VllmStep, writers: list[WritingRequest]) -> Tensor:
    """What bonus and plain tokens are drawn from."""
    scores = _logits(step, [], writers) if step.last is None else _rows(step.last, [writer.place for writer in writers])
    return scores.softmax(-1, dtype=torch.float32)


def _logits(step: VllmStep, drafting: list[WritingRequest], direct: list[WritingRequest]) -> Tensor:
    """The model's, of drafted rows and then of bonus and plain ones."""
    places = [writer.place for writer in direct]
    if step.rows is None or step.last_rows is None:
        return _rows(step.logits, places)
    rows = [_rows(step.rows, _drafted_places(drafting)), _rows(step.last_rows, places)]
    return step.logits.index_select(0, torch.cat(rows))


def _drafted_places(writers: list[WritingRequest]) -> list[int]:
    return [place for writer in writers for place in range(writer.first, writer.first + writer.count)]


def _corrections(step: VllmStep, writers: list[WritingRequest], tokens: Tensor, p: Tensor, q: Tensor | None) -> Tensor:
    """What corrections are drawn from, not divided by its sum."""
    rows = [writer.start + writer.accepted for writer in writers]
    sampled = torch.tensor([[step.temperature[writer.place] > 0] for writer in writers], dtype=torch.bool).view(-1, 1)
    p = _rows(p, rows)
    rest = p.scatter(1, _rows(tokens, rows)[:, None], 0.0) if q is None else (p - _rows(q, rows)).clamp_min(0)
    return rest.where(sampled, p)


def _targets(step: VllmStep, writers: list[WritingRequest], direct: list[WritingRequest], p: Laws) -> list[Content]:
    """p as it was used, beside the model's logits. `whole`: log of the sum of exp(logit / temperature), which is
    max(logit / temperature) - log(max(softmax))."""
    heats = [step.temperature[writer.place] or 1.0 for writer in writers for _ in range(writer.count)]
    heats += [step.temperature[writer.place] or 1.0 for writer in direct]
    logits = _logits(step, writers, direct).float()
    scores, whole = numbers(logits.gather(1, p.best)), [None] * len(p)
    if not step.processed_elsewhere:
        logits = logits / torch.tensor(heats)[:, None]
        whole = numbers(logits.amax(-1).double() - logits.softmax(-1).amax(-1).double().log())
    columns = (numbers(p.total), p.kept(), whole, p.best.tolist(), p.top(), scores)
    return [
        {"sum": total, "kept": kept, "least": least, "top": _tuples(ids, top, of), "whole": log}
        for total, (kept, least), log, ids, top, of in zip(*columns, strict=True)
    ]


def _drawn(laws: Laws, tokens: Tensor) -> list[Content]:
    """A token under what it was drawn from: the mass of likelier tokens, and of those as likely as it."""
    columns = (numbers(laws.total), laws.of(tokens), *laws.beside(tokens), laws.best.tolist(), laws.top())
    return [
        {"sum": total, "mass": mass, "above": above, "equal": equal, "top": _tuples(ids, top)}
        for total, mass, above, equal, ids, top in zip(*columns, strict=True)
    ]


def _drafted(tokens: Tensor, p: Laws, q: Laws | None, u: list[float] | list[None]) -> list[Content]:
    """`shown`: p and q side by side, of the likeliest tokens of both and the drafted one; and what p, q and min(p, q)
    are in sum for all others. A q that was not drawn from is 1 at the drafted token."""
    ids = torch.cat([tokens[:, None], *(law.with_mass(tokens) for law in (p, q) if law is not None)], 1)
    rest_p = p.rest(ids)
    if q is None:
        of_q, own_q = (ids == tokens[:, None]).double(), [1.0] * len(p)
        rest_q = torch.zeros_like(rest_p)
    else:
        of_q, own_q, rest_q = q.clean.gather(1, ids), q.of(tokens), q.rest(ids)
    rests = torch.stack([row_sums(mass) for mass in (rest_p, rest_q, torch.minimum(rest_p, rest_q))], 1)
    sides = zip(ids.tolist(), p.clean.gather(1, ids).tolist(), of_q.tolist(), rests.tolist(), strict=True)
    return [
        {"token": token, "p": of_p, "q": of_q, "u": number, "shown": _shown(*side)}
        for token, of_p, of_q, number, side in zip(tokens.tolist(), p.of(tokens), own_q, u, sides, strict=True)
    ]


def _shown(ids: list[int], p: list[float], q: list[float], rests: list[float]) -> Content:
    """Each token once, in the order of the vocabulary."""
    both = dict(sorted(zip(ids, zip(p, q, strict=True), strict=True)))
    rest_p, rest_q, least = rests
    return {
        "ids": list(both),
        "p": [one for one, _ in both.values()],
        "q": [other for _, other in both.values()],
        "rest_p": rest_p,
        "rest_q": rest_q,
        "rest_min": least,
        "rest_residual": max(rest_p - least, 0.0),  # (p - q)+ is p - min(p, q)
    }


def _rows(values: Tensor, rows: list[int]) -> Tensor:
    return values.index_select(0, torch.tensor(rows, dtype=torch.long))


def _tuples(*columns: list[Any]) -> list[list[Any]]:
    return [list(row) for row in zip(*columns, strict=True)]
