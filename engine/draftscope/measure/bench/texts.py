"""The texts of a benchmark, from a file or shipped with Draftscope. Imports no torch."""

from __future__ import annotations

from pathlib import Path

from draftscope.base import prompts
from draftscope.base.prompts import Prompt
from draftscope.measure.bench.plan import BenchPlan


def texts(plan: BenchPlan, file: Path | None = None) -> tuple[dict[str, list[Prompt]], list[str]]:
    """The plan's prompts by kind, from `file` or else the shipped ones, and a note about skipped lines.

    Raises `DraftscopeError` for a file that cannot be read or an unknown kind.
    """
    found, notes = (prompts.shipped(), []) if file is None else prompts.read(file)
    return prompts.select(found, plan.kinds, plan.prompts_per_kind), notes
