"""Tokens a round where nobody has measured them: a prior by kind of drafter and of text, with its interval.

`priors.csv` is written by `python -m tests.programs.learn_priors FILE` from the training half of a published record.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from draftscope.forecast.drafting import DraftPlan
from draftscope.forecast.tables import Row, read_table

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
    """Tokens a round of this drafter on this kind of text."""
    row = _prior(drafting.kind.name, drafting.branches, text)
    middle, half = float(row["logit"]), LEVEL_Z * float(row["spread"])
    return Band(
        *(tau_of(1 / (1 + math.exp(-entry)), drafting.depth) for entry in (middle, middle - half, middle + half))
    )


def _prior(kind: str, tree: bool, text: str) -> Row:
    """The most special row: the kind on this text, the kind, then all kinds."""
    rows = {(row["kind"], row["tree"], row["text"]): row for row in read_table("priors")}
    wanted = [(kind, str(int(tree)), text), (kind, str(int(tree)), ""), (kind, str(int(not tree)), ""), ("", "", "")]
    return next(rows[key] for key in wanted if key in rows)
