"""The advice in sentences: the verdict first, then where it would change."""

from __future__ import annotations

from collections.abc import Sequence

from draftscope.advise.advice_verdict import FAR, FEW, MIN_RUNS, AdviceDecision, AtTemperature, Measured, Verdict
from draftscope.advise.limits import Limits
from draftscope.advise.question import Objective, Question
from draftscope.advise.speed_model import Predicted
from draftscope.measure.bench.statistics import Interval

OF = {
    Objective.LATENCY: "the speed",
    Objective.THROUGHPUT: "the tokens a second",
    Objective.COST: "the tokens for the same money",
    Objective.TAIL: "the speed, in the slowest 5% of answers,",
}

NO_DRAFTER = (
    "No draft model and no head is loaded, so only n-grams, suffixes and other drafters without a trained model were "
    "compared. To train one: 'draftscope train-drafter --target MODEL', with the model that was named here."
)


def of_decision(
    question: Question, decision: AdviceDecision, limits: Limits, others: Sequence[AtTemperature] = ()
) -> list[str]:
    """What is said of a measured decision, and whether it holds at other temperatures."""
    chosen = decision.chosen
    if decision.verdict is Verdict.ON:
        said = [f"Turn it on: {_measured(question, chosen)}.", *where_it_ends(limits, chosen.candidate.name)]
    elif decision.verdict is Verdict.OFF:
        said = [f"Leave it off: the best that was found is {_measured(question, chosen)}.", *would_change(limits)]
    else:
        said = [f"It cannot be told: {_measured(question, chosen)}, and {_why(chosen)}.", _needed(decision)]
    temperatures = [_at_temperature(decision.verdict, other) for other in others]
    return [*said, *temperatures, *_kinds(chosen), *_far(chosen), *_few(chosen)]


def so_far(measured: Sequence[Measured]) -> str:
    """What runs say before they are all; empty if they say nothing yet."""
    return ", ".join(f"{entry.candidate.name} {_ratio(entry.ratio)} so far" for entry in measured)


def foreseen(best: Predicted) -> str:
    """What acceptance and costs promise before anything was run in turn."""
    return f"{best.candidate.name} about {best.ratio.median:.2f}x by what was accepted"


def of_prediction(question: Question, best: Predicted, limits: Limits) -> list[str]:
    """What is said where nothing was run: modelled, and marked so."""
    ratio = f"{best.candidate.name}: {best.ratio.median:.2f}x {OF[question.objective]} of plain decoding"
    if best.ratio.median > 1:
        said = [f"Turn it on: {ratio}, {_requests(question.concurrency)} (modelled, not run)."]
        return said + where_it_ends(limits, best.candidate.name)
    return [f"Leave it off: the best is {ratio} (modelled, not run).", *would_change(limits)]


def where_it_ends(limits: Limits, name: str) -> list[str]:
    """Where speculation stops paying."""
    said = []
    if limits.off_from is not None and limits.off_from > 1:
        said.append(f"Turn it off at {limits.off_from} or more concurrent requests (predicted).")
    elif limits.off_from is None and limits.known_to > 1:
        said.append(f"It pays up to {limits.known_to} concurrent requests, the most that were calibrated (predicted).")
    if limits.shortest is not None and limits.shortest > 1:
        said.append(f"Answers under {limits.shortest} tokens do not pay.")
    if limits.min_alpha is not None and limits.alpha is not None:
        rates = f"{limits.min_alpha:.2f} (yours: {limits.alpha:.2f})"
        said.append(f"{name} would stop paying below an acceptance rate of {rates}.")
    elif limits.min_tau > 1:
        said.append(f"{name} would stop paying below {limits.min_tau:.2f} tokens a round.")
    else:  # no round has fewer than one token
        said.append(f"{name} pays whatever it guesses: its rounds were measured to cost no more than plain ones.")
    return said


def would_change(limits: Limits) -> list[str]:
    """What would have to change before it pays."""
    said = []
    if limits.min_alpha is not None and limits.alpha is not None:
        said.append(
            f"It would pay above an acceptance rate of {limits.min_alpha:.2f} (yours: {limits.alpha:.2f})."
            if limits.min_alpha < 1
            else "It would not pay even if every drafted token were accepted."
        )
    else:
        said.append(f"It would pay above {limits.min_tau:.2f} tokens a round.")
    if limits.step is not None:
        said.append(
            f"Or if a draft step took less than {limits.max_step:.2f} of a round of plain decoding "
            f"(yours: {limits.step:.2f})."
            if limits.max_step is not None
            else "A faster draft alone would not help: verification already takes longer than the accepted tokens save."
        )
    return said


def price(question: Question, plain_tokens_per_s: float, ratio: float) -> str:
    """Money per million tokens, without and with the chosen setting."""
    assert question.price_per_hour is not None
    plain = question.price_per_hour / 3600 / plain_tokens_per_s * 1e6
    return f"A million tokens cost {plain / ratio:.2f} instead of {plain:.2f}, at {question.price_per_hour:g} an hour."


def _measured(question: Question, measured: Measured) -> str:
    prompts = f"{measured.prompts} prompt{'' if measured.prompts == 1 else 's'}"
    return (
        f"{measured.candidate.name}: {_ratio(measured.ratio)} {OF[question.objective]} of plain decoding, "
        f"at temperature {question.temperature:g}, {_requests(question.concurrency)}, measured with {prompts} "
        f"(predicted {measured.predicted:.2f}x)"
    )


def _why(chosen: Measured) -> str:
    """Why nothing can be told."""
    if not chosen.possible:
        return f"no machine is so fast at {chosen.tau:.2f} tokens a round: other work disturbed these runs"
    if not chosen.has_enough_runs:
        return f"{'one run is' if chosen.runs == 1 else f'{chosen.runs} runs are'} too few to tell"
    return "this interval contains 1"


def _at_temperature(verdict: Verdict, other: AtTemperature) -> str:
    at, ratio = f"temperature {other.temperature:g}", _ratio(other.ratio)
    if other.verdict is Verdict.OPEN:
        return f"At {at} it cannot be told: {ratio}."
    if other.verdict is verdict:
        return f"It holds at {at} too: {ratio}."
    return f"It flips at {at}: {other.verdict} there, {ratio}."


def _kinds(chosen: Measured) -> list[str]:
    """The ratio by kind of text, the best first, and whether the answer flips among them."""
    if len(chosen.by_kind) < 2:
        return []
    ranked = sorted(chosen.by_kind.items(), key=lambda entry: -entry[1])
    faster, slower = ([f"{kind} {ratio:.2f}" for kind, ratio in ranked if (ratio > 1) is on] for on in (True, False))
    if faster and slower:
        return [f"It flips by kind of text: it pays for {', '.join(faster)}; not for {', '.join(slower)} (medians)."]
    return [f"By kind of text: {', '.join(faster or slower)}."]


def _far(chosen: Measured) -> list[str]:
    """Why the prediction missed, if it did: its tokens a round, or its cost."""
    ratio = chosen.ratio.median
    if chosen.tau is None or chosen.predicted_tau is None or abs(ratio / chosen.predicted - 1) <= FAR:
        return []
    return [
        f"The prediction missed by {abs(chosen.predicted / ratio - 1):.0%}: these runs wrote {chosen.tau:.2f} tokens a "
        f"round (predicted {chosen.predicted_tau:.2f}), and a round took {chosen.tau / ratio:.2f} times as long as one "
        f"of plain decoding (predicted {chosen.predicted_tau / chosen.predicted:.2f})."
    ]


def _ratio(ratio: Interval) -> str:
    of_one_answer = ratio.low == ratio.high
    return f"{ratio.median:.2f}x" + ("" if of_one_answer else f" [{ratio.low:.2f}, {ratio.high:.2f}]")


def _requests(count: int) -> str:
    return f"at {count} concurrent request{'' if count == 1 else 's'}"


def _needed(decision: AdviceDecision) -> str:
    if not decision.chosen.possible:
        return "Stop other work on this machine and ask again."
    if decision.prompts_needed is None:
        return "The difference is under 1%: no practical number of prompts would tell, and it would hardly matter."
    if not decision.chosen.has_enough_runs:
        return f"Give {FEW} prompts or more, or more seconds; {MIN_RUNS} runs beside plain decoding are the least."
    return f"About {decision.prompts_needed} prompts would tell, if the median stays where it is."


def _few(chosen: Measured) -> list[str]:
    if chosen.prompts >= FEW:
        return []
    if chosen.ratio.low == chosen.ratio.high:
        return [f"One answer has no interval and does not tell how other texts would fare; give {FEW} prompts or more."]
    words = "one prompt" if chosen.prompts == 1 else f"{chosen.prompts} prompts"
    return [f"The interval is of {words}, so it does not tell how other texts would fare; give {FEW} prompts or more."]
