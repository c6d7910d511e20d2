"""The defaults of `draftscope regret`. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from draftscope.base.errors import DraftscopeError
from draftscope.drafters.options import BanditOptions
from draftscope.measure.bench.plan import BenchPlan

PLAN = BenchPlan(temperatures=(1.0,), peers=False)  # minutes on two cores; at T = 0 most continuations loop
QUICK = replace(PLAN, repeats=2, prompts_per_kind=1)
POLICIES: tuple[str, ...] = get_args(BanditOptions.model_fields["policy"].annotation)
ARMS: tuple[str, ...] = BanditOptions().arms


def refuse_policies(names: Sequence[str]) -> None:
    """Raises `DraftscopeError` for a policy that does not exist."""
    for name in names:
        if name not in POLICIES:
            raise DraftscopeError(f"There is no policy '{name}'; known are {', '.join(POLICIES)}.")
