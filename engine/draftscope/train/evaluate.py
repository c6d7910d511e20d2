"""How well a model predicts held-out text, domain by domain."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer
from torch.nn import functional as F
from transformers import LlamaForCausalLM

from draftscope.train.corpus import ROW, Domain


@dataclass(frozen=True)
class Score:
    """Held-out loss of one domain."""

    nats_per_token: float
    bits_per_byte: float
    tokens: int


def held_out(domain: Domain, rows: int) -> torch.Tensor:
    """Up to `rows` rows spread evenly over a domain's held-out text, [rows, ROW + 1]."""
    whole = (len(domain.tokens) - 1) // ROW
    chosen = range(0, whole, max(1, whole // rows))[:rows]
    flat = torch.from_numpy(domain.tokens.astype("int64"))
    return torch.stack([flat[i * ROW : i * ROW + ROW + 1] for i in chosen])


@torch.inference_mode()
def score(model: LlamaForCausalLM, domain: Domain, rows: int, tokenizer: Tokenizer) -> Score:
    """Mean loss over the held-out rows, and the same per byte of the text they stand for."""
    ids = held_out(domain, rows)  # [rows, ROW + 1]
    total = 0.0
    for row in torch.split(ids, 8):
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(input_ids=row[:, :-1], use_cache=False).logits  # [8, ROW, vocabulary]
        total += F.cross_entropy(logits.float().flatten(0, 1), row[:, 1:].flatten(), reduction="sum").item()
    texts = tokenizer.decode_batch([row.tolist() for row in ids[:, 1:]], skip_special_tokens=True)
    count = ids[:, 1:].numel()
    return Score(total / count, total / math.log(2) / sum(len(text.encode()) for text in texts), count)


def scores(model: LlamaForCausalLM, domains: list[Domain], rows: int, tokenizer: Tokenizer) -> dict[str, Score]:
    """One score per domain."""
    model.eval()
    return {domain.name: score(model, domain, rows, tokenizer) for domain in domains}


@dataclass(frozen=True)
class Agreement:
    """How far draft and target agree on one domain's held-out text."""

    alpha: float  # mean over positions of sum min(p, q) at temperature 1
    greedy: float  # share of positions with the same most likely token
    tokens: int


@torch.inference_mode()
def agreement(target: LlamaForCausalLM, draft: LlamaForCausalLM, domain: Domain, rows: int) -> Agreement:
    """alpha = sum min(p, q) is the chance that one drafted token is accepted (2211.17192, theorem 3.5)."""
    ids = held_out(domain, rows)[:, :-1]  # [rows, ROW]
    alpha = greedy = 0.0
    for row in torch.split(ids, 8):
        with torch.autocast("cpu", torch.bfloat16):
            p = target(input_ids=row, use_cache=False).logits.float().softmax(-1)  # [8, ROW, vocabulary]
            q = draft(input_ids=row, use_cache=False).logits.float().softmax(-1)
        alpha += torch.minimum(p, q).sum().item()
        greedy += (p.argmax(-1) == q.argmax(-1)).sum().item()
    return Agreement(alpha / ids.numel(), greedy / ids.numel(), ids.numel())


def agreements(
    target: LlamaForCausalLM, draft: LlamaForCausalLM, domains: list[Domain], rows: int
) -> dict[str, Agreement]:
    """One agreement per domain."""
    target.eval()
    draft.eval()
    return {domain.name: agreement(target, draft, domain, rows) for domain in domains}
