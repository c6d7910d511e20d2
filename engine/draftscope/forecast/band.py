"""A number with the interval that should hold it nine times of ten."""

from __future__ import annotations

import math
from dataclasses import dataclass

LEVEL_Z = 1.645  # of a normal law, for 90%


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
