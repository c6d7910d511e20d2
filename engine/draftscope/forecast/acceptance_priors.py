"""Tokens a round where nobody has measured them: a prior by kind of drafter and of text, with its interval.

`priors.csv` is written by `python -m tests.programs.learn_priors FILE` from the training half of a published record.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from draftscope.base.errors import DraftscopeError
from draftscope.forecast.drafter_forwards import DraftPlan
from draftscope.forecast.hardware_tables import Row, read_table

LEVEL_Z = 1.645  # of a normal law, for 90%
TEXTS = (
    ("code", "code|humaneval|mbpp|edit"),
    ("maths", "gsm|math"),
    ("copied", "cnn|summ|wiki|rag|extract"),
    ("chat", ""),
)


@dataclass(frozen=True)
class Band:
    """The middle and the ends of a 90% interval."""

    middle: float
    low: float
    high: float

    def divided_by(self, cost: float, spread: float) -> Band:
        """This over a cost that is known up to a factor exp(+-`spread`); both errors are independent."""
        lower = math.hypot(math.log(self.middle / self.low), spread)
        upper = math.hypot(math.log(self.high / self.middle), spread)
        middle = self.middle / cost
        return Band(middle, middle * math.exp(-lower), middle * math.exp(upper))

    def __str__(self) -> str:
        return f"{self.middle:.2f} [{self.low:.2f}, {self.high:.2f}]"


def kind_of_text(dataset: str) -> str:
    """code, maths, copied (text that repeats its prompt) or chat."""
    return next(name for name, words in TEXTS if re.search(words, dataset.lower()))


def tau_of(alpha: float, depth: int) -> float:
    """Tokens a round of a chain: 1 + alpha + ... + alpha^depth (arXiv:2211.17192, equation 1)."""
    return sum(alpha**k for k in range(depth + 1))


def prior_tau(drafting: DraftPlan, text: str) -> Band:
    """Tokens a round of this drafter on this kind of text, or a DraftscopeError where nobody has published any."""
    row = prior_row(drafting, text)
    middle, half = float(row["logit"]), LEVEL_Z * float(row["spread"])
    return Band(
        *(tau_of(1 / (1 + math.exp(-entry)), drafting.depth) for entry in (middle, middle - half, middle + half))
    )


def prior_row(drafting: DraftPlan, text: str) -> Row:
    """The row of its kind, of chains or trees, and text. A draft model has none: rows of others do not know it."""
    kind, tree = drafting.kind, str(int(drafting.branches))
    if kind.shape in ("model", "parallel") and drafting.model is not None:
        raise DraftscopeError(
            f"No published row says how many tokens of the draft {drafting.model.name} are accepted; give the tokens a "
            "round (tau)."
        )
    rows = {(row["kind"], row["tree"], row["text"]): row for row in read_table("priors")}
    if (row := rows.get((kind.name, tree, text))) is None:
        texts = [name for name, _ in TEXTS if (kind.name, tree, name) in rows]
        those = f", only on {' and '.join(texts)}" if texts else ""
        other = (kind.name, str(int(not drafting.branches)), text) in rows
        form = "" if not other else " in trees" if drafting.branches else " in chains"
        raise DraftscopeError(
            f"The published record has no row of {kind.name} on {text}{form}{those}; give the tokens a round (tau)."
        )
    return row
