"""How many servers a traffic needs so that nine of ten answers come in time, with and without speculation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from draftscope.base.errors import DraftscopeError
from draftscope.forecast.cluster.simulate import PROMPT_TOKENS, Traffic, simulate
from draftscope.forecast.cluster.step_times import StepTimes, drafted_times, in_strides, plain_times
from draftscope.forecast.forecast import COST_SPREAD, Scenario, tokens_a_round

IN_TIME = 90  # percent of the answers
PATIENCE = 2.0  # times a plain answer on an idle server, where nothing else is asked
USUAL_ANSWER, LONGEST_ANSWER = 256, 131_072  # tokens: where nothing else is asked; at most
STEPS = 128  # that an answer is played in at most; a longer one writes several tokens in each
RUN, LONE = 2000, 100  # requests of a run at least; of one in which nobody meets another
AT_ONCE = 600  # answers at once that are simulated


@dataclass(frozen=True)
class Needed:
    """The servers that suffice, and the seconds in which nine of ten answers then end. None: no number suffices."""

    servers: int | None
    latency_s: float | None


@dataclass(frozen=True)
class CardsNeeded:
    """The answer. `slow` and `fast` are `drafted` at the ends of the speedup's 90% interval."""

    traffic: Traffic
    within_s: float
    most: int  # sequences at once up to which a server drafts
    fits: int  # sequences at once of a server
    plain: Needed
    drafted: Needed
    slow: Needed
    fast: Needed


@dataclass(frozen=True)
class LatencyCurve:
    """The seconds in which nine of ten answers end, by the number of servers."""

    servers: Sequence[int]
    plain: Sequence[float]
    drafted: Sequence[float]


def cards_needed(scenario: Scenario, per_second: float, within_s: float | None = None, shared: int = 0) -> CardsNeeded:
    """For `per_second` requests of the scenario's context and answer; all prompts begin with the same `shared` tokens.

    Without `within_s`, answers may take twice as long as a plain one on an idle server.
    """
    if scenario.answer > LONGEST_ANSWER:
        raise DraftscopeError(f"Answers of {scenario.answer:,} tokens: at most {LONGEST_ANSWER:,} are simulated.")
    plain, (slow, middle, fast) = plain_times(scenario), _drafted(scenario)
    prompt, answer = round(scenario.context), scenario.answer
    usual_s = PATIENCE * plain.answer_s(prompt, answer)
    at_once = per_second * usual_s
    if at_once > AT_ONCE:
        raise DraftscopeError(
            f"{per_second:g} requests a second can be {at_once:,.0f} answers at once, and at most {AT_ONCE:,} are "
            "simulated; ask for a part of the traffic, as much as one router has."
        )
    within_s = within_s or usual_s
    traffic = Traffic(per_second, prompt, answer, shared, max(RUN, math.ceil(8 * at_once)))
    return CardsNeeded(
        traffic, within_s, middle.speculation.most if middle.speculation else 0, len(plain.plain),
        *(_needed(traffic, times, within_s) for times in (plain, middle, slow, fast)),
    )  # fmt: skip


def latency_curve(scenario: Scenario, answer: CardsNeeded) -> LatencyCurve:
    """From the fewest servers that keep up at all to half more than suffice."""
    plain, drafted = plain_times(scenario), _drafted(scenario)[1]
    first = min(_fewest(answer.traffic, times) for times in (plain, drafted))
    last = max(first + 3, math.ceil(1.5 * max(answer.plain.servers or 0, answer.drafted.servers or 0)))
    servers = sorted({round(first * (last / first) ** (k / 11)) for k in range(12)})
    rows = [[_latency(answer.traffic, times, n) for n in servers] for times in (plain, drafted)]
    return LatencyCurve(servers, *rows)


def _drafted(scenario: Scenario) -> tuple[StepTimes, StepTimes, StepTimes]:
    """At the low end of the speedup's interval, in its middle, at the high end: in rounds that take longer or less."""
    tau = tokens_a_round(scenario)
    gain = tau.divided_by(1.0, COST_SPREAD)
    low, middle, high = (
        drafted_times(scenario, tau.middle, gain.middle / end) for end in (gain.low, gain.middle, gain.high)
    )
    return low, middle, high


def _needed(traffic: Traffic, times: StepTimes, within_s: float) -> Needed:
    """By doubling, then by halving the gap: more servers are never slower."""
    if _latency(replace(traffic, requests=LONE), times, LONE) > within_s:
        return Needed(None, None)
    enough = _fewest(traffic, times)
    too_few = enough - 1
    while _latency(traffic, times, enough) > within_s:
        if enough > traffic.requests:
            return Needed(None, None)
        too_few, enough = enough, 2 * enough
    while enough - too_few > 1:
        half = (too_few + enough) // 2
        too_few, enough = (half, enough) if _latency(traffic, times, half) > within_s else (too_few, half)
    return Needed(enough, _latency(traffic, times, enough))


def _latency(traffic: Traffic, times: StepTimes, servers: int) -> float:
    times = in_strides(times, math.ceil(traffic.answer / STEPS))
    return simulate(traffic, times, servers).settled().latency_s(IN_TIME)


def _fewest(traffic: Traffic, times: StepTimes) -> int:
    """The servers that could write all answers if every step had the size at which a token costs least."""
    prompt = traffic.prompt - traffic.shared
    together = max(1, PROMPT_TOKENS // prompt)
    tokens = [seconds / n for n, seconds in enumerate(times.plain, 1)]
    if speculation := times.speculation:
        tokens += [
            seconds / n / speculation.tau for n, seconds in enumerate(speculation.seconds[: speculation.most], 1)
        ]
    answer_s = times.prefill(together * prompt) / together + (traffic.answer - 1) * min(tokens)
    return max(1, math.ceil(traffic.per_second * answer_s))
