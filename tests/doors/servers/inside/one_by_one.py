"""What a recorder makes of a step, token by token: the readable reference of draftscope_vllm/rounds.py."""

from __future__ import annotations

import math
from typing import Any

import torch
from draftscope_vllm.laws import TOP
from draftscope_vllm.rounds import VllmStep, VllmVerification
from torch import Tensor


def one_by_one(step: VllmStep) -> list[tuple[str, dict[str, Any]]]:
    """The rounds of a step, by request."""
    counts = [0] * len(step.requests) if step.verification is None else step.verification.counts
    made, first = [], 0
    for i, (request, count) in enumerate(zip(step.requests, counts, strict=True)):
        if step.wanted[i] and not step.skipped[i]:
            made.append((request, _round(step, i, first, count)))
        first += count
    return made


def _round(step: VllmStep, i: int, first: int, count: int) -> dict[str, Any]:
    tokens = [token for token in step.written[i].tolist() if token >= 0]
    accepted = len(tokens) - 1
    return {
        "ms": round(step.ms, 3),
        "at": round(step.at, 3),
        "batch": len(step.requests),
        "temperature": step.temperature[i],
        "top_k": step.top_k[i],
        "top_p": step.top_p[i],
        "drafted": [_drafted(step, i, first + j, _verdict(j, accepted)) for j in range(count)],
        "kind": "plain" if not count else "bonus" if accepted == count else "correction",
        "next": _next(step, i, first, count, tokens),
    }


def _verdict(position: int, accepted: int) -> bool | None:
    """None: never decided, as an earlier one was rejected."""
    return None if position > accepted else position < accepted


def _drafted(step: VllmStep, i: int, row: int, verdict: bool | None) -> dict[str, Any]:
    seen = step.verification
    assert seen is not None
    token, p = int(seen.drafted[row]), _p(seen, row)
    q = None if seen.q is None else seen.q[row]
    return {
        "token": token,
        "p": _number(p[token]),
        "q": 1.0 if q is None else _number(q[token]),
        "u": None if seen.u is None else float(seen.u[row]),
        "accepted": verdict,
        "target": _target(step, i, p, row if step.rows is None else int(step.rows[row])),
        "draft": None if q is None else _drawn(q, token),
        "shown": _shown(p, q, token),
    }


def _shown(p: Tensor, q: Tensor | None, token: int) -> dict[str, Any]:
    """p and q side by side: of the likeliest tokens of both and the drafted one, and what min(p, q) and (p - q)+ are in
    sum for all others."""
    p = p.nan_to_num(0).double()
    q = (torch.zeros_like(p).index_fill_(0, torch.tensor(token), 1.0) if q is None else q.nan_to_num(0)).double()
    likeliest = [law.topk(min(TOP, len(law))).indices.tolist() for law in (p, q)]
    ids = sorted({token} | {t for t in likeliest[0] if p[t] > 0} | {t for t in likeliest[1] if q[t] > 0})
    rest = torch.ones_like(p, dtype=torch.bool).index_fill_(0, torch.tensor(ids), False)
    p_rest, q_rest = p[rest], q[rest]
    return {
        "ids": ids,
        "p": p[ids].tolist(),
        "q": q[ids].tolist(),
        "rest_p": float(p_rest.sum()),
        "rest_q": float(q_rest.sum()),
        "rest_min": float(torch.minimum(p_rest, q_rest).sum()),
        "rest_residual": float((p_rest - q_rest).clamp_min(0).sum()),
    }


def _next(step: VllmStep, i: int, first: int, count: int, tokens: list[int]) -> dict[str, Any]:
    """The token after the accepted ones, and the distribution that it was drawn from."""
    token, accepted, seen = tokens[-1], len(tokens) - 1, step.verification
    if accepted < count:
        assert seen is not None
        row = first + accepted
        law, drafted = _p(seen, row).clone(), int(seen.drafted[row])
        if step.temperature[i] and seen.q is not None:
            law = (law - seen.q[row]).clamp_min(0)
        elif step.temperature[i]:
            law[drafted] = 0
        return {"token": token, **_drawn(law, token), "target": None}
    scores = step.logits[_last_row(step, i)] if step.last is None else step.last[i]
    law = scores.softmax(-1, dtype=torch.float32)
    return {"token": token, **_drawn(law, token), "target": _target(step, i, law, _last_row(step, i))}


def _last_row(step: VllmStep, i: int) -> int:
    return i if step.last_rows is None else int(step.last_rows[i])


def _p(seen: VllmVerification, row: int) -> Tensor:
    return seen.processed[row].softmax(-1, dtype=torch.float32) if seen.p is None else seen.p[row]


def _target(step: VllmStep, i: int, p: Tensor, row: int) -> dict[str, Any]:
    """p as it was used, beside the model's logits. `whole`: log of the sum of exp(logit / temperature)."""
    top = p.nan_to_num(0).topk(min(TOP, len(p)))
    seen = step.logits[row].double()
    whole = (seen / (step.temperature[i] or 1.0)).logsumexp(-1)
    return {
        "sum": _number(p.double().sum()),
        "kept": len(kept := p[p > 0]),
        "least": int((kept == kept.min()).sum()) if len(kept) else 0,
        "top": [[int(t), _number(p[t]), _number(seen[t])] for t in top.indices],
        "whole": None if step.processed_elsewhere else _number(whole),
    }


def _drawn(law: Tensor, token: int) -> dict[str, Any]:
    """A token under what it was drawn from: the mass of likelier tokens, and of those as likely as it."""
    law = law.double()
    mass = law[token]
    top = law.nan_to_num(0).topk(min(TOP, len(law)))
    return {
        "sum": _number(law.sum()),
        "mass": _number(mass),
        "above": _number(law[law > mass].sum()),
        "equal": _number(law[law == mass].sum()),
        "top": [[int(t), _number(law[t])] for t in top.indices],
    }


def _number(value: Tensor) -> float | None:
    """None: not a number, or without bound."""
    return float(value) if math.isfinite(value) else None
