"""How long a server's steps take, by the number of sequences, and what a round of speculation writes: by the cost
model, or from measured steps."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import accumulate, pairwise, takewhile

import numpy as np

from draftscope.base.costs import alpha_of
from draftscope.base.errors import DraftscopeError
from draftscope.forecast.cost import forward_ms, plain_ms, round_ms
from draftscope.forecast.forecast import Scenario

MAX_SEQUENCES = 256  # vLLM's default for most cards (`max_num_seqs`)
MEMORY = 0.9  # of a card's memory for weights and caches, the default of vLLM for years


@dataclass(frozen=True)
class Speculation:
    """`seconds[n - 1]` is a round of n sequences, `chances[k]` that it writes k tokens of a sequence. Above `most`
    sequences at once the server decodes plainly."""

    seconds: tuple[float, ...]
    chances: tuple[float, ...]
    most: int

    @property
    def tau(self) -> float:
        """Tokens a round, on average."""
        return sum(tokens * chance for tokens, chance in enumerate(self.chances))

    @cached_property
    def _cumulative(self) -> list[float]:
        return list(accumulate(self.chances[:-1]))

    def draw(self, draws: random.Random) -> int:
        """The tokens of one sequence in one round."""
        return bisect_right(self._cumulative, draws.random())

    def repeated(self, rounds: int) -> Speculation:
        """That many rounds as one."""
        size = rounds * (len(self.chances) - 1) + 1
        chances = np.fft.irfft(np.fft.rfft(self.chances, size) ** rounds, size).clip(0.0)
        return Speculation(tuple(rounds * one for one in self.seconds), tuple(chances.tolist()), self.most)


def chances_of(kept: Sequence[float]) -> tuple[float, ...]:
    """By tokens of a round, where `kept[k]` is the chance that more than k drafted tokens are kept."""
    return 0.0, *(more - fewer for more, fewer in pairwise((1.0, *kept, 0.0)))


def chances_of_chain(tau: float, depth: int) -> tuple[float, ...]:
    """Of a draft that is accepted alike at every position and writes `tau` tokens a round."""
    alpha = min(alpha_of(tau, depth), 1.0)
    return chances_of([alpha**k for k in range(1, depth + 1)])


def pays_up_to(plain: Sequence[float], seconds: Sequence[float], tau: float) -> int:
    """The largest batch such that in it and in all smaller ones a round is cheaper than `tau` plain steps."""
    pairs = zip(plain, seconds, strict=True)
    return len(list(takewhile(lambda pair: pair[1] < tau * pair[0], pairs)))


@dataclass(frozen=True)
class StepTimes:
    """Seconds. `plain[n - 1]`: `tokens` for each of n sequences; it has an entry for every batch that fits.

    `prefill` takes the number of prompt tokens that are read in one step.
    """

    plain: tuple[float, ...]
    prefill: Callable[[int], float]
    speculation: Speculation | None = None
    tokens: int = 1

    def answer_s(self, prompt: int, answer: int) -> float:
        """A plain answer on a server that has nothing else to do."""
        return self.prefill(prompt) + (answer - 1) * self.plain[0]


def plain_times(scenario: Scenario) -> StepTimes:
    """By the cost model: as many sequences as fit, half of the answer behind a step besides the prompt."""
    target, on, behind = scenario.target, scenario.machine, scenario.context + scenario.answer / 2
    batches = range(1, _fits(scenario) + 1)
    return StepTimes(
        tuple(1e-3 * plain_ms(target, on, n, behind) for n in batches),
        cache(lambda tokens: 1e-3 * forward_ms(target, on, 1, tokens, 0)),
    )


def drafted_times(scenario: Scenario, tau: float, slower: float = 1.0) -> StepTimes:
    """The same with speculation, whose rounds take `slower` times what the cost model says; off where it loses."""
    plain, plan, on = plain_times(scenario), scenario.drafting, scenario.machine
    behind = scenario.context + scenario.answer / 2
    seconds = tuple(
        1e-3 * slower * round_ms(scenario.target, plan, on, n, behind) for n in range(1, len(plain.plain) + 1)
    )
    most = pays_up_to(plain.plain, seconds, tau)
    if not most:
        return plain

    @cache
    def prefill(tokens: int) -> float:
        more = forward_ms(plan.model, on, 1, tokens, 0) if plan.model else 0.0
        return plain.prefill(tokens) + 1e-3 * more

    return replace(plain, prefill=prefill, speculation=Speculation(seconds, chances_of_chain(tau, plan.depth), most))


def in_strides(times: StepTimes, stride: int) -> StepTimes:
    """The same server, where `stride` steps are played as one: requests join in between no more."""
    return replace(
        times, plain=tuple(stride * one for one in times.plain), tokens=stride,
        speculation=times.speculation and times.speculation.repeated(stride),
    )  # fmt: skip


def _fits(scenario: Scenario) -> int:
    target, on = scenario.target, scenario.machine
    room = MEMORY * on.cards * on.card.memory_gb * 1e9 - target.parameters * target.weight_bytes
    sequences = int(room / ((scenario.context + scenario.answer) * target.cache_bytes()))
    if sequences < 1:
        raise DraftscopeError(
            f"{on.cards} x {on.card.name} have no room for {target.name} and an answer; give more cards or fewer "
            "tokens."
        )
    return min(sequences, MAX_SEQUENCES)
