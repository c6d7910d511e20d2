"""A claim, and what a verdict on it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from draftscope.claims.saved_results import SavedResults


class ClaimVerdict(StrEnum):
    """One of four, or that the results needed for one are missing."""

    HOLDS = "holds"
    ONLY_IF = "holds here only if"
    FAILS = "does not hold here"
    UNTESTED = "cannot be tested here"
    UNMEASURED = "not measured yet"


@dataclass(frozen=True)
class JudgedClaim:
    """The verdict, the numbers behind it with interval and n, what the formula gives, and what would change it."""

    verdict: ClaimVerdict
    measured: str
    change: str = ""
    formula: str = ""


@dataclass(frozen=True)
class Claim:
    """One claim. `judge` returns None where the evidence lacks what it needs; without it `why_not` says why."""

    number: int
    sentence: str
    command: str
    rule: str  # how the verdict is computed
    judge: Callable[[SavedResults], JudgedClaim | None] | None = None
    why_not: str = ""
    elsewhere: bool = False  # this machine or these models can never test it

    def judged(self, evidence: SavedResults) -> JudgedClaim:
        """The verdict from these results."""
        judged = self.judge(evidence) if self.judge is not None else None
        if judged is not None:
            return judged
        reason = f"{self.why_not[0].upper()}{self.why_not[1:]}." if self.why_not else ""
        verdict = ClaimVerdict.UNTESTED if self.elsewhere else ClaimVerdict.UNMEASURED
        return JudgedClaim(verdict, reason, f"Run: {self.command}")
