"""Rows that are computed together say what each of them says alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from draftscope_vllm import rounds as together
from draftscope_vllm.rounds import VllmStep, VllmVerification, rounds

from tests.doors.servers.inside.one_by_one import one_by_one

V, COUNTS = 200, (4, 0, 2, 4, 3)
SUMS, LOGS = 1e-12, 1e-5  # by how much a sum may differ, and a log of one: fp32 logits of up to ten


def made_step(
    seed: int, temperatures: tuple[float, ...] = (1.0, 0.7, 1.3, 0.9, 1.0), drawn: bool = True, drafts: bool = True,
    keep: int = V, broken: bool = False,
) -> VllmStep:  # fmt: skip
    """A step of five requests. Without `drawn` there is no q; where it is `broken`, p of one row is not a number."""
    dice = torch.Generator().manual_seed(seed)
    counts = list(COUNTS) if drafts else [0] * len(COUNTS)
    logits = 2 * torch.randn(sum(counts) + len(counts), V, generator=dice)
    of_request = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts) + 1)
    last_rows = torch.tensor(counts).add(1).cumsum(0) - 1
    rows = torch.tensor([row for row in range(len(logits)) if row not in last_rows.tolist()], dtype=torch.long)
    heats = torch.tensor([each or 1.0 for each in temperatures])[of_request]
    scaled = logits / heats[:, None]
    scaled = scaled.masked_fill(scaled < scaled.topk(keep).values[:, -1:], -torch.inf)
    processed = scaled[rows]
    if broken:
        processed[1] = torch.nan
    p, greedy = processed.softmax(-1), not any(temperatures)
    q = (processed.nan_to_num(0, neginf=-torch.inf) + 0.5 * torch.randn(len(rows), V, generator=dice)).softmax(-1)
    drafted = q.multinomial(1, generator=dice).flatten() if drafts else torch.empty(0, dtype=torch.long)
    written = torch.full((len(counts), max(COUNTS) + 1), -1)
    for place, (count, own) in enumerate(zip(counts, drafted.split(counts), strict=True)):
        accepted = int(torch.randint(0, count + 1, (1,), generator=dice))
        written[place, :accepted] = own[:accepted]
        written[place, accepted] = torch.randint(0, V, (1,), generator=dice)
    seen = VllmVerification(
        drafted, counts, q if drawn and not greedy else None, processed,
        None if greedy else torch.rand(len(rows), generator=dice, dtype=torch.float64), None if greedy else p,
    )  # fmt: skip
    return VllmStep(
        [f"request {place}" for place in range(len(counts))], list(temperatures), [0 if keep == V else keep] * 5,
        [1.0] * 5, [False] * 5, [True] * 5, 1.0, 2.0, logits, False, written,
        None if greedy else scaled[last_rows], seen if drafts else None, rows if drafts else None,
        last_rows if drafts else None,
    )  # fmt: skip


GREEDY = (0.0,) * 5
STEPS = {
    "sampled": {},
    "greedy": {"temperatures": GREEDY},
    "greedy and sampled": {"temperatures": (0.0, 0.7, 0.0, 1.0, 0.0)},
    "no q": {"drawn": False},
    "no q, greedy and sampled": {"drawn": False, "temperatures": (0.0, 0.7, 0.0, 1.0, 0.0)},
    "nothing drafted": {"drafts": False},
    "nothing drafted, greedy": {"drafts": False, "temperatures": GREEDY},
    "top-k of twenty": {"keep": 20},
    "top-k of three": {"keep": 3},
    "not numbers": {"broken": True},
    "not numbers, no q": {"broken": True, "drawn": False},
}
CHANGES = {
    "as it is": {},
    "penalties": {"processed_elsewhere": True},
    "parts of prompts": {"skipped": [True, False, False, True, False]},
    "two are wanted": {"wanted": [False, False, True, False, True]},
    "none is wanted": {"wanted": [False] * 5},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("kind", STEPS.values(), ids=STEPS)
def test_rows_computed_together_say_what_each_says_alone(kind: dict[str, Any], change: dict[str, Any]) -> None:
    for seed in range(6):
        step = replace(made_step(seed, **kind), **change)
        same(rounds(step), one_by_one(step))


def test_a_large_step_is_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    step = made_step(1)
    monkeypatch.setattr(together, "TOGETHER", 6 * V)
    assert [len(group) for group in together._groups(step)] == [2, 1, 1, 1]
    same(rounds(step), one_by_one(step))


def test_of_equally_likely_tokens_any_may_be_kept() -> None:
    """As bf16 logits have them."""
    step = made_step(2)
    assert step.verification is not None and step.verification.p is not None
    step.verification.p = step.verification.p.bfloat16().float()
    for (_, seen), (_, alone) in zip(rounds(step), one_by_one(step), strict=True):
        for one, other in zip(seen["drafted"], alone["drafted"], strict=True):
            assert [p for _, p, _ in one["target"]["top"]] == [p for _, p, _ in other["target"]["top"]]
            assert (one["target"]["kept"], one["target"]["least"]) == (
                other["target"]["kept"],
                other["target"]["least"],
            )


def same(seen: Any, alone: Any, name: str = "") -> None:
    """Up to rounding of sums, and to which of the tokens without any mass are kept."""
    if name == "top":
        seen, alone = ([entry for entry in top if entry[1]] for top in (seen, alone))
    if isinstance(alone, dict):
        assert seen.keys() == alone.keys()
        for key in alone:
            same(seen[key], alone[key], key)
    elif isinstance(alone, list | tuple):
        assert len(seen) == len(alone), name
        for one, other in zip(seen, alone, strict=True):
            same(one, other)
    elif name in ("sum", "above", "equal", "rest_p", "rest_q", "rest_min", "rest_residual") and alone is not None:
        assert seen == pytest.approx(alone, abs=SUMS, rel=0), name
    elif name == "whole" and alone is not None:
        assert seen == pytest.approx(alone, abs=LOGS, rel=0)
    else:
        assert seen == alone and type(seen) is type(alone), name
