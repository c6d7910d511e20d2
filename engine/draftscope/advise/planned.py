"""Advice without running anything: acceptance that was measured elsewhere, with costs from there or a calibration."""

from __future__ import annotations

from dataclasses import dataclass

from draftscope.advise import limits, sentences, servers
from draftscope.advise.advice_verdict import Verdict
from draftscope.advise.candidates import GAMMAS, Candidate
from draftscope.advise.observed import conditional_alpha, typed
from draftscope.advise.question import Question
from draftscope.advise.report import AdviceReport
from draftscope.advise.round_costs import RoundCosts, TypedCosts
from draftscope.advise.speed_model import PrefillTimes, predict
from draftscope.advise.surface import surface
from draftscope.advise.what_if import Sizes
from draftscope.base.errors import DraftscopeError


@dataclass(frozen=True)
class TypedValues:
    """What was measured elsewhere. Raises `DraftscopeError` for a value out of range.

    `alpha[k - 1]` is the chance that drafted token k is accepted if all before it were; a single value holds at every
    position. With `unconditional`, each is the share of all rounds in which token k was accepted, as servers count it.
    `c` and `v` are in rounds of plain decoding (`costs.TypedCosts`); without `c` a calibration is needed.
    """

    alpha: tuple[float, ...]
    unconditional: bool = False
    c: float | None = None
    v: tuple[float, ...] = (1.0,)
    o: float = 0.0

    def __post_init__(self) -> None:
        if not self.alpha:
            raise DraftscopeError("--alpha names no value; give one, or one for each position, such as .7,.6,.5.")
        for value in self.alpha:
            if not 0 <= value <= 1:
                raise DraftscopeError(f"alpha = {value:g}: choose 0 to 1.")
        if self.unconditional and any(b > a for a, b in zip(self.alpha, self.alpha[1:], strict=False)):
            raise DraftscopeError("alpha rises: shares of all rounds cannot rise with the position; check the order.")
        for name, values, least in (("c", (self.c or 0.0,), 0.0), ("v", self.v or (0.0,), 0.1), ("o", (self.o,), 0.0)):
            for value in values:
                if not least <= value < float("inf"):
                    raise DraftscopeError(
                        f"{name} = {value:g}: choose at least {least:g}, in rounds of plain decoding."
                    )

    @property
    def conditional(self) -> tuple[float, ...]:
        """The acceptance by position, given that all before was accepted."""
        if not self.unconditional:
            return self.alpha
        before = (1.0, *self.alpha[:-1])
        return tuple(
            accepted / all_before if all_before > 0 else 0.0
            for accepted, all_before in zip(self.alpha, before, strict=True)
        )

    @property
    def gammas(self) -> tuple[int, ...]:
        """Sizes of which something is known."""
        one = len(self.alpha) == 1 and not self.unconditional
        return GAMMAS if one else tuple(range(1, len(self.alpha) + 1))


def planned(
    question: Question, values: TypedValues, costs: RoundCosts | None = None, drafter: str = "draft"
) -> AdviceReport:
    """The advice for typed values. `costs` are a calibration's, needed unless the values have c.

    Raises `DraftscopeError` for several requests with costs of one sequence.
    """
    if costs is None or values.c is not None:
        costs = TypedCosts(values.c or 0.0, values.v, values.o)
    if question.concurrency > costs.max_batch:
        raise DraftscopeError(
            f"concurrency = {question.concurrency}: --c and --v are costs of one sequence; leave them out to use this "
            "machine's calibration, or ask for one."
        )
    observed = {Candidate(drafter, gamma): typed(values.conditional, gamma) for gamma in values.gammas}
    predicted = predict(question, observed, costs, PrefillTimes())
    best = predicted[0]
    ends = limits.limits(best, observed, costs, PrefillTimes(), question.concurrency)
    plan = limits.schedule(best.candidate, observed, costs, question.concurrency)
    on = best.ratio.median > 1
    return AdviceReport(
        question=question,
        verdict=Verdict.ON if on else Verdict.OFF,
        chosen=best,
        sentences=sentences.of_prediction(question, best, ends),
        predicted=predicted,
        measured=[],
        at_temperatures=[],
        limits=ends,
        alpha=conditional_alpha(observed[best.candidate]),
        schedule=plan,
        ready=servers.ready(best.candidate, plan) if on else [],
        surface=surface(drafter, observed, costs, Sizes()),
        notes=["Modelled from typed values: nothing was run."],
    )
