"""Made-up recordings, clean or with one seeded fault: made-up logits, verified here, read by the recorder's code."""

from __future__ import annotations

from typing import Literal

import torch
from draftscope_vllm.rounds import VllmStep, VllmVerification, rounds
from torch import Tensor

from draftscope.servers.inside.recording import RecordedRound

K, V = 4, 24

Fault = Literal[
    "none",
    "temperature of drafted rows",
    "not a number",  # p of drafted rows
    "top-k left out",
    "accepts too often",
    "u reused",
    "q before truncation",
    "residual not renormalised",
    "correction from p",
    "bonus from q",
]


def recording(
    seed: int, count: int, fault: Fault = "none", temperature: float = 1.0, drawn: bool = True
) -> list[RecordedRound]:
    """`count` rounds of one request, with top-k 12. Unless they are `drawn`, drafts are the drafter's best tokens."""
    dice = torch.Generator().manual_seed(seed)
    return [_round(number, fault, temperature, drawn, dice) for number in range(count)]


def truncated(logits: Tensor, top: int) -> Tensor:
    edge = logits.topk(top).values[..., -1:]
    return logits.masked_fill(logits < edge, -torch.inf)


def draw(law: Tensor, dice: torch.Generator) -> int:
    return int(law.multinomial(1, generator=dice))


def _round(number: int, fault: Fault, temperature: float, drawn: bool, dice: torch.Generator) -> RecordedRound:
    logits = 1.5 * torch.randn(K + 1, V, generator=dice)
    guess = logits[:K] + 0.7 * torch.randn(K, V, generator=dice)
    divisors = torch.full((K + 1, 1), temperature or 1.0)
    divisors[:K] *= {"temperature of drafted rows": 1.3, "not a number": torch.nan}.get(fault, 1.0)
    processed = truncated(logits / divisors, V if fault == "top-k left out" else 12) if temperature else logits
    p = processed.softmax(-1)
    q = (guess if fault == "q before truncation" else truncated(guess, 12)).softmax(-1)
    from_q = truncated(guess, 6).softmax(-1) if fault == "q before truncation" else q
    if not drawn:
        q = from_q = torch.nn.functional.one_hot(guess.argmax(-1), V).float()
    drafted = [draw(row, dice) for row in from_q]
    if fault == "u reused":
        u = torch.rand(K, generator=torch.Generator().manual_seed(number % 50), dtype=torch.float64)
    else:
        u = torch.rand(K, generator=dice, dtype=torch.float64)
    written = _verified(drafted, p, q, u, fault, temperature, dice)
    greedy = temperature == 0
    step = VllmStep(
        ["made-up"], [temperature], [12], [1.0], [False], [True], 1.0, 2.0 + 3.0 * number, logits, False,
        torch.tensor([written + [-1] * (K + 1 - len(written))]), None if greedy else processed[K:],
        VllmVerification(torch.tensor(drafted), [K], q if drawn and not greedy else None, processed[:K],
                     None if greedy else u, None if greedy else p[:K]),
        torch.arange(K), torch.tensor([K]),
    )  # fmt: skip
    [(request, content)] = rounds(step)
    return RecordedRound.model_validate({"request": request, "number": number, **content})


def _verified(
    drafted: list[int], p: Tensor, q: Tensor, u: Tensor, fault: Fault, temperature: float, dice: torch.Generator
) -> list[int]:
    """The tokens of the round: accepted ones and one more."""
    leniency = 1.3 if fault == "accepts too often" else 1.0
    for i, token in enumerate(drafted):
        right = token == int(p[i].argmax()) if temperature == 0 else bool(u[i] * q[i, token] < leniency * p[i, token])
        if not right:
            return [*drafted[:i], _correction(p[i], q[i], fault, temperature, dice)]
    law = q[K - 1] if fault == "bonus from q" else p[K]
    return [*drafted, int(law.argmax()) if temperature == 0 else draw(law, dice)]


def _correction(p: Tensor, q: Tensor, fault: Fault, temperature: float, dice: torch.Generator) -> int:
    if temperature == 0:
        return int(p.argmax())
    if fault == "correction from p" or p.isnan().any():
        return draw(p.nan_to_num(1.0), dice)
    residual = (p - q).clamp_min(0)
    if fault == "residual not renormalised":
        return min(int(torch.searchsorted(residual.cumsum(-1), torch.rand(1, generator=dice))), V - 1)
    return draw(residual, dice)
