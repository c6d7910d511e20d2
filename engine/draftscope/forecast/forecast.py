"""Whether speculation pays on hardware that is not at hand: speed, where it stops paying, and what it costs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from draftscope.base.errors import DraftscopeError, quoted
from draftscope.forecast import runnable
from draftscope.forecast.acceptance_priors import TEXTS, Band, prior_row, prior_tau
from draftscope.forecast.architecture import Architecture, find_architecture, format_in
from draftscope.forecast.cost import Hardware, drafting_ms, forward_ms, plain_ms, round_ms, spread_over
from draftscope.forecast.drafter_forwards import DraftPlan, find_kind, plan_drafting, refuse_form
from draftscope.forecast.hardware_tables import FORMATS, exact_name, find_card, find_engine
from draftscope.forecast.held import held_to

COST_SPREAD = 0.43  # 90% of the training half's rows with a published tau are predicted within exp(+-0.43)
MOST = 4096  # requests at once that are looked at


@dataclass(frozen=True)
class Scenario:
    """What is asked. `tau` None: the prior for this drafter and kind of text; `answer` 0: decoding alone."""

    target: Architecture
    drafting: DraftPlan
    machine: Hardware
    concurrency: int = 1
    context: float = 1024.0  # tokens behind a step
    answer: int = 0  # tokens; counts the prefill of the context
    tau: float | None = None
    text: str = "chat"


def ask(
    model: str, drafter: str = "eagle3", card: str = "H100", *, form: str = "", draft: str = "", quant: str = "",
    engine: str = "vllm", tp: int | None = None, concurrency: int = 1, context: float = 1024, answer: int = 0,
    tau: float | None = None, text: str = "chat",
) -> Scenario:  # fmt: skip
    """The scenario of these names, or a DraftscopeError that names the one that is not known.

    `form` is 'k=3' or 'steps=7,topk=4,draft_tokens=8'; `draft` the draft model; `quant` the format of the weights;
    `tp` the cards that share each layer, by default as many as the weights need.
    """
    names = {"drafter": drafter, "card": card, "engine": engine}
    drafter, card, engine = (exact_name(f"{what}s", what, name) for what, name in names.items())
    if text not in (known := [name for name, _ in TEXTS]):
        raise DraftscopeError(f"The kind of text '{quoted(text)}' is not known; give one of: {', '.join(known)}.")
    if quant and not re.fullmatch(rf"(?:ud-)?(?:{FORMATS})", quant.lower()):
        raise DraftscopeError(
            f"The format '{quoted(quant)}' is not known; give one such as bf16, fp8, int8, q4 or nvfp4."
        )
    target, kind, costs = _model(model, quant), find_kind(drafter), find_engine(engine)
    if form:
        refuse_form(form, kind)
    smaller = _model(draft) if draft else None
    if smaller is not None and kind.shape not in ("model", "parallel"):
        raise DraftscopeError(f"{kind.name} drafts without a model of its own; leave out the draft '{quoted(draft)}'.")
    drafting = plan_drafting(kind, target, form, smaller, costs.trees)
    runnable.refuse_draft(target, drafting)
    if tau is not None and not 1 <= tau <= drafting.depth + 1:
        raise DraftscopeError(
            f"tau = {tau:g} is not from 1 to {drafting.depth + 1}, which a round can emit; change the form."
        )
    if tau is None:
        prior_row(drafting, text)  # refuses where there is none
    machine = spread_over(find_card(card), costs, target, tp, None if tp is None else False)
    runnable.refuse_sharing(target, machine)
    runnable.refuse_size(target, drafting, machine, concurrency, context)
    return Scenario(target, drafting, machine, concurrency, context, answer, tau, text)


def _model(name: str, quant: str = "") -> Architecture:
    """In the format that was asked for, or that its name says."""
    return find_architecture(name).quantised(quant or format_in(name))


@dataclass(frozen=True)
class Stops:
    """Requests at once from which on the middle, the upper and the lower end of the speedup are below 1.

    `low` is where the lower end falls below 1; `high` None: the upper end never does within what was looked at.
    """

    middle: int
    low: int
    high: int | None

    def __str__(self) -> str:
        return f"{self.middle} [{self.low}, {f'above {MOST:,}' if self.high is None else self.high}]"


@dataclass(frozen=True)
class Forecast:
    """Milliseconds, tokens a second of all requests together, and the speedup with its 90% interval."""

    speedup: Band
    tau: Band
    plain_ms: float
    drafting_ms: float
    verify_ms: float
    round_ms: float
    plain_tokens_s: float
    tokens_s: Band
    stops_at: Stops | None  # None where the middle never is below 1 within what was looked at
    memory_gb: float  # weights and caches on all cards
    fits: int  # requests at once whose caches the memory holds
    known: str  # what of it was held to published speedups


def forecast(scenario: Scenario) -> Forecast:
    """The forecast, with every term that went into it."""
    tau, on, n = tokens_a_round(scenario), scenario.machine, scenario.concurrency
    plain, whole = plain_ms(scenario.target, on, n, scenario.context), _round_ms(scenario)
    speedup = speedup_of(scenario)
    rate = 1e3 * n / plain
    memory = runnable.weights_gb(scenario.target, scenario.drafting)
    memory += n * runnable.sequence_gb(scenario.target, on, scenario.context)
    return Forecast(
        speedup, tau, plain, drafting_ms(scenario.drafting, on, n, scenario.context),
        forward_ms(scenario.target, on, n, scenario.drafting.rows, scenario.context), whole, rate,
        Band(rate * speedup.middle, rate * speedup.low, rate * speedup.high), stops_at(scenario), memory,
        fits(scenario),
        held_to(scenario.drafting.kind.name, on.engine.name, on.card.name),
    )  # fmt: skip


def fits(scenario: Scenario) -> int:
    """Requests at once whose caches the memory holds beside the weights."""
    return runnable.fitting(scenario.target, scenario.drafting, scenario.machine, scenario.context)


def speedup_of(scenario: Scenario) -> Band:
    """tau over the cost of a round in steps of plain decoding; with an answer's length, of the whole answer."""
    plain = plain_ms(scenario.target, scenario.machine, scenario.concurrency, scenario.context)
    ratio = tokens_a_round(scenario).divided_by(_round_ms(scenario) / plain, COST_SPREAD)
    if not scenario.answer:
        return ratio
    once, more = _prefill_ms(scenario)
    more_tokens = scenario.answer - 1  # prefill emits the first
    steps, least = more_tokens * plain, min(more_tokens, 1) * _round_ms(scenario)

    def whole(gain: float) -> float:
        return (once + steps) / (once + more + max(steps / gain, least))

    return Band(whole(ratio.middle), whole(ratio.low), whole(ratio.high))


def _prefill_ms(scenario: Scenario) -> tuple[float, float]:
    """Of the target, and what the drafter adds, for one request."""
    once = forward_ms(scenario.target, scenario.machine, 1, scenario.context, 0)
    model = scenario.drafting.model
    return once, forward_ms(model, scenario.machine, 1, scenario.context, 0) if model else 0.0


def stops_at(scenario: Scenario) -> Stops | None:
    """Where the speedup falls below 1, among `MOST` requests at once."""
    middle, low, high = (_first(scenario, end) for end in (lambda b: b.middle, lambda b: b.low, lambda b: b.high))
    return None if middle is None or low is None else Stops(middle, low, high)


def _first(scenario: Scenario, end: Callable[[Band], float]) -> int | None:
    """The least number of requests, to the eighth of an octave."""
    sizes = sorted({round(2 ** (k / 8)) for k in range(12 * 8 + 1)})
    return next((size for size in sizes if end(speedup_of(replace(scenario, concurrency=size))) < 1), None)


def dollars_per_million(tokens_s: float, cards: int, dollars_per_hour: float) -> float:
    """What a million tokens cost on `cards` cards of this price."""
    return cards * dollars_per_hour / (3600 * tokens_s) * 1e6


def tokens_a_round(scenario: Scenario) -> Band:
    """As asked, or by the prior."""
    if scenario.tau is None:
        return prior_tau(scenario.drafting, scenario.text)
    return Band(scenario.tau, scenario.tau, scenario.tau)


def _round_ms(scenario: Scenario) -> float:
    return round_ms(scenario.target, scenario.drafting, scenario.machine, scenario.concurrency, scenario.context)
