"""What a round costs before it was measured here: ratios measured on a processor of the same kind, or a rule.

A run that somebody waits for begins with these; what is measured later takes their place (`base/costs.py`). Everything
is in forwards of one row. v by rows was measured on SmolLM2-135M (`draftscope bench --target smollm2`, its table v(n)).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

ROWS_AS_LONG = 12  # rows that take as long as a forward of one row, where nothing is known
STEP = 0.02  # of a draft step beside the weights that it reads, and of one that reads none
OVERHEAD = {"plain": 0.08, "drafting": 0.12}  # of a round beside its forwards: the table's o, between both kinds
ACCEPTED = (0.64, 0.14, 0.06, 0.03, 0.02, 0.01)  # shares of rounds that accept the child of each rank


@dataclass(frozen=True)
class Kind:
    """A kind of processor and weights, and v by rows there."""

    words: str
    rows: Mapping[int, float]


STORED = Kind(
    "AVX-512 VNNI with weights as stored (2026-11-26)",
    {1: 1.0, 2: 1.15, 3: 1.43, 4: 1.82, 5: 2.24, 6: 2.70, 8: 3.56, 12: 4.98, 16: 6.44},
)
WIDENED = Kind(
    "AVX-512 bf16 with 16-bit weights (2026-11-26)",
    {1: 1.0, 2: 1.0, 3: 1.02, 4: 1.02, 5: 1.02, 6: 1.08, 8: 1.30, 12: 1.88, 16: 2.40},
)
RULE = Kind(
    f"a rule: {ROWS_AS_LONG} rows take as long as one more forward",
    {rows: 1 + (rows - 1) / ROWS_AS_LONG for rows in (1, 1 + ROWS_AS_LONG)},
)


@dataclass(frozen=True)
class PresumedCosts:
    """Costs of rounds as `Calibration` gives them, in rounds of plain decoding. `steps`: of a draft step by drafter, in
    the target's forwards of one row."""

    kind: Kind
    steps: Mapping[str, float]

    @property
    def words(self) -> str:
        return f"not measured here yet: {self.kind.words}"

    def round_cost(self, drafter: str, gamma: int, batch: int = 1, context: int | None = None) -> float:
        """Of a round that drafts `gamma` tokens in a chain; 1 if gamma is 0."""
        return self.tree_cost(drafter, gamma, gamma, batch, context)

    def tree_cost(self, drafter: str, nodes: int, levels: int, batch: int = 1, _: int | None = None) -> float:
        """The same for a tree of `nodes` nodes, drafted in `levels` steps. The context is not counted."""
        if nodes == 0:
            return 1.0
        verify = self._v(batch * (nodes + 1)) / self._v(batch)
        drafting = levels * self.steps.get(drafter, STEP)
        return (drafting + verify + OVERHEAD["drafting"]) / (1 + OVERHEAD["plain"])

    def _v(self, rows: int) -> float:
        """Of so many rows; beyond the last measured one as much a row as there."""
        known, v = list(self.kind.rows), list(self.kind.rows.values())
        return float(np.interp(rows, known, v)) if rows <= known[-1] else v[-1] * rows / known[-1]
