"""A drafter's speedup on the user's own text: chains of four drafts against plain decoding, in one run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from draftscope.base.prompts import Prompt
from draftscope.decode.load import load
from draftscope.measure.bench.benchmark import benchmark
from draftscope.measure.bench.plan import BenchPlan
from draftscope.measure.bench.statistics import Interval
from draftscope.models.loading.embedded import Member
from draftscope.train.data.corpus import Domain

PROMPTS, GIVEN = 6, 64  # prompts from the held-out text, and the tokens of each
PLAN = BenchPlan(gammas=(4,), temperatures=(1.0,), tokens=48, peers=False)


def speedup(member: Member, home: Path, place: Path, prompts: list[Prompt]) -> Interval:
    """Tokens/s with the drafter in `place` for the target in `home`, divided by plain decoding's in the same repeat.

    At temperature 1, including prefill: the median over prompts and repeats, with its 95% interval.
    """
    heads = [f"{member.kind}:{place}"] if member.is_head else []
    chain = member.kind if member.is_head else "draft"
    with load(home, None if member.is_head else place, threads=torch.get_num_threads(), heads=heads) as lab:
        report = benchmark(lab, replace(PLAN, drafters=(chain,)), {prompts[0].kind: prompts})
    return next(row.ratio_to_plain for row in report.rows if row.drafter == chain)


def openings(held: Domain, tokenizer: Any) -> list[Prompt]:
    """Prompts spread evenly over the held-out text."""
    starts = torch.linspace(0, len(held.tokens) - GIVEN, PROMPTS).long().tolist()
    return [Prompt(held.name, tokenizer.decode(held.tokens[start : start + GIVEN].tolist())) for start in starts]
