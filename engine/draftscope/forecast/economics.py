"""What decides whether speculation pays, as curves of the forecast, and what the forecast says about claims.

All are of EAGLE-3 chains of three drafted tokens under vLLM on H100s, unless a line says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from draftscope.forecast.acceptance_priors import Band, tau_of
from draftscope.forecast.architecture import of_size
from draftscope.forecast.forecast import MOST, Scenario, ask, fits, forecast, speedup_of

SMALL, DENSE, MIXTURE = "Llama-3.1-8B", "Llama-3.3-70B", "Qwen3-235B-A22B"
LOADS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
CONTEXTS = (256, 1024, 4096, 16_384, 65_536, 131_072)
ANSWERS = (1, 4, 16, 64, 256, 1024)
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
ALPHA, SAME_TAU = 0.7, 2.5


@dataclass(frozen=True)
class Curve:
    """One line of a figure: the forecast at each x."""

    name: str
    x: Sequence[float]
    y: Sequence[Band]


@dataclass(frozen=True)
class Seed:
    """One figure: a question, what is on its axis, a sentence, and how its curves are computed."""

    name: str
    title: str
    x: str
    note: str
    curves: Callable[[], list[Curve]]


def scenario(model: str, drafter: str = "eagle3", **more: Any) -> Scenario:
    """A pair on as many H100s as its weights need; `more` as `ask` takes it."""
    return ask(model, drafter, **{"form": "k=3"} | more)


def _usual(model: str, drafter: str, **more: Any) -> Scenario:
    """With the prior; a draft model, of which there is none, with `SAME_TAU`."""
    return scenario(model, drafter, tau=SAME_TAU if drafter == "draft" else None, **more)


def _along(name: str, given: Scenario, field: str, xs: Sequence[float]) -> Curve:
    """Where the memory holds it."""
    values: Sequence[Any] = xs
    there = {x: replace(given, **{field: x}) for x in values}
    there = {x: at for x, at in there.items() if fits(at) >= at.concurrency}
    return Curve(name, list(there), [speedup_of(at) for at in there.values()])


def _by_load() -> list[Curve]:
    pairs = ((SMALL, "eagle3"), (DENSE, "eagle3"), (DENSE, "draft"))
    return [_along(f"{model}, {kind}", _usual(model, kind), "concurrency", LOADS) for model, kind in pairs]


def _by_mixture() -> list[Curve]:
    models = (DENSE, MIXTURE, "Qwen3-30B-A3B", "DeepSeek-V3")
    return [_along(model, scenario(model, tau=SAME_TAU), "concurrency", LOADS) for model in models]


def _by_context() -> list[Curve]:
    return [
        _along(f"{model}, {n} at once", scenario(model, tau=SAME_TAU, concurrency=n), "context", CONTEXTS)
        for model in (SMALL, DENSE)
        for n in (1, 64)
    ]


def _by_answer() -> list[Curve]:
    return [
        _along(f"{drafter}, prompt of {context}", _usual(DENSE, drafter, context=context), "answer", ANSWERS)
        for drafter in ("eagle3", "draft")
        for context in (1024, 16_384)
    ]


def _by_size() -> list[Curve]:
    """The same acceptance whatever the size: what a smaller draft may lose before it is the worse choice."""
    curves = []
    for model in (SMALL, DENSE):
        given = scenario(model, "draft", form="k=5", tau=tau_of(ALPHA, 5))
        drafts = [of_size(share * given.target.parameters) for share in SHARES]
        ys = [speedup_of(replace(given, drafting=replace(given.drafting, model=draft))) for draft in drafts]
        curves.append(Curve(model, SHARES, ys))
    return curves


USUAL = f"The prior for chat; the draft model with {SAME_TAU} tokens a round."
SAME = f"The same {SAME_TAU} tokens a round for all."
SEEDS = (
    Seed("by-load", "Free at one request, gone under load", "requests at once", USUAL, _by_load),
    Seed("by-mixture", "Rows wake experts", "requests at once", SAME, _by_mixture),
    Seed("by-context", "Long contexts give some back", "tokens of context", SAME, _by_context),
    Seed("by-answer", "Short answers do not pay", "tokens of an answer", f"One request, with its prefill. {USUAL}",
         _by_answer),
    Seed("by-size", "Small and large drafts", "draft's share of the target's weights",
         f"Chains of five; acceptance {ALPHA} whatever the size.", _by_size),
)  # fmt: skip


def two_to_three() -> str:
    """Claim 3."""
    result = {model: speedup_of(scenario(model)) for model in (SMALL, DENSE, MIXTURE)}
    inside = sum(2 <= band.middle <= 3 for band in result.values())
    return f"{inside} of {len(result)} lie between 2 and 3 at one request: {_listed(result)}"


def by_batch() -> str:
    """Claim 18."""
    result = {f"{n} at once": speedup_of(scenario(DENSE, concurrency=n)) for n in (1, 10, 32, 128)}
    stop = forecast(scenario(DENSE)).stops_at
    where = f"from {stop} on" if stop else f"nowhere within {MOST:,}"
    return f"{DENSE}: {_listed(result)}; it stops paying {where}"


def long_context() -> str:
    """Claim 19."""
    at = [
        speedup_of(scenario(SMALL, tau=SAME_TAU, concurrency=64, context=context, tp=4)) for context in (1024, 32_768)
    ]
    verb = "gives some back" if at[1].middle > at[0].middle else "gives nothing back"
    return f"a long context {verb}: {SMALL} on 4 at 64 requests, {at[0]} behind 1,024 tokens and {at[1]} behind 32,768"


def experts_gain_less() -> str:
    """Claim 21."""
    result = {
        f"{n} at once": [speedup_of(scenario(model, tau=SAME_TAU, concurrency=n)).middle for model in (DENSE, MIXTURE)]
        for n in (1, 8, 64, 256)
    }
    less = ", ".join(f"{at} {dense:.2f} and {sparse:.2f}" for at, (dense, sparse) in result.items())
    return f"with {SAME_TAU} tokens a round, {DENSE} and {MIXTURE} gain: {less}"


def cloud_bill() -> str:
    """Claim 24."""
    result = {n: 1 - 1 / speedup_of(scenario(DENSE, concurrency=n)).middle for n in (1, 32, 256)}
    return (
        f"of the bill of {DENSE} it saves "
        + ", ".join(f"{saved:.0%} at {n}" for n, saved in result.items())
        + " at once"
    )


_SENTENCES: Mapping[int, Callable[[], str]] = {
    3: two_to_three, 18: by_batch, 19: long_context, 21: experts_gain_less, 24: cloud_bill,
}  # fmt: skip


@cache
def forecast_of_claim(number: int) -> str:
    """What the forecast for H100s says about a claim of `draftscope.claims`; empty if nothing."""
    said = _SENTENCES.get(number)
    return f"On H100s with EAGLE-3, not run: {said()}." if said else ""


def _listed(result: Mapping[str, Band]) -> str:
    return ", ".join(f"{name} {band}" for name, band in result.items())
