"""What a check found, how far it is, and the strongest sentence that its findings support."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from draftscope.base.errors import DraftscopeError

FALSE_ALARM = 1e-6  # probability that a distribution test fails for a correct implementation
MIN_SAMPLES = 500  # with fewer, hardly any outcome is expected five times, and a test says nothing


def refuse_few(samples: int) -> None:
    """Raises `DraftscopeError` for too few runs of a distribution test."""
    if not isinstance(samples, int) or samples < MIN_SAMPLES:
        raise DraftscopeError(
            f"samples = {samples!r}: too few to tell distributions apart; choose {MIN_SAMPLES} or more."
        )


@dataclass(frozen=True)
class Finding:
    """The result of one check: what was tested, on how many samples, and whether a difference was found."""

    name: str
    passed: bool
    detail: str
    samples: int = 0
    ties: int = 0  # texts that part from the expected ones where rounding alone decides
    error: str = ""  # the name of the exception with which the engine ended this test; empty if it ran to its end
    undecided: bool = False  # no difference was found, and too little was tested to find one
    p_value: float | None = None
    total_variation: float | None = None  # lossy rules: between the joint distribution and the target's
    kl: float | None = None  # KL(written || target) in nats; absent if infinite (the target cannot write it)


def so_far(findings: Sequence[Finding], tests: int) -> str:
    """What can be said before all `tests` are done; empty before the first and after the last."""
    if not 0 < len(findings) < tests:
        return ""
    wrong = [finding.name for finding in findings if not finding.passed]
    seen = f"a difference or an error in {', '.join(wrong)}" if wrong else "no difference"
    return f"so far {seen}, {len(findings)} of {tests} tests done"


def verdict(findings: Sequence[Finding], exact: bool, proved: bool = True) -> str:
    """The strongest sentence that these findings support. `proved`: the drafter is one of those whose rules and draws
    the tests of this project prove; of a plug-in only samples are known."""
    apart = [finding.name for finding in findings if not finding.passed and not finding.error]
    ended = [finding.name for finding in findings if finding.error]
    if apart or ended:
        difference = [f"A difference was found: {', '.join(apart)}."] if apart else []
        error = [f"The engine ended with an error: {', '.join(ended)}."] if ended else []
        return " ".join(difference + error)
    ties = sum(finding.ties for finding in findings)
    met = f" Ties met: {ties}; there rounding alone decides the target's best token." if ties else ""
    undecided = [finding.name for finding in findings if finding.undecided]
    if undecided:
        return (
            f"Undecided: no difference was found, but too little was tested to find one: {', '.join(undecided)}.{met}"
        )
    if not exact:
        return f"This drafter's rule is lossy by design; nothing unexpected was found.{met}"
    what = "The rule is proved" if proved else "The rule is proved, the drafter's distributions are not"
    return f"{what}; on this pair no difference was found.{met}"
