"""A drafter in the real loop: tau, its cost and its speed, on held-out prompts in chains of several lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from draftscope.base.prompts import Prompt
from draftscope.decode.lab import Lab
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.statistics import LOOP, repeated_4grams

GAMMAS, TEMPERATURES, TOKENS = (2, 4, 6), (0.0, 1.0), 96


@dataclass(frozen=True)
class Trial:
    """Chains of `gamma` tokens at one temperature. tau: tokens of a round; ratio: tokens/s without prefill, divided by
    plain decoding's on the same prompts; c: a draft step's cost, in rounds of plain decoding."""

    gamma: int
    temperature: float
    tau: float
    ratio: float
    c: float
    prompts: int  # that did not loop


@dataclass(frozen=True)
class Decoded:
    """One prompt's answer: its tokens, rounds, and milliseconds in all and while proposing."""

    tokens: list[int]
    rounds: int
    spent: float
    proposing: float

    @property
    def loops(self) -> bool:
        return repeated_4grams(self.tokens) > LOOP


def trials(lab: Lab, drafter: str, prompts: Sequence[Prompt], most: int) -> list[Trial]:
    """Every gamma up to `most` at every temperature; answers that loop do not count."""
    found = []
    for temperature in TEMPERATURES:
        plain = [_decoded(lab, prompt, temperature, drafter="plain") for prompt in prompts]
        for gamma in GAMMAS:
            if gamma <= most:
                own = [_decoded(lab, prompt, temperature, drafter=drafter, gamma=gamma) for prompt in prompts]
                found.append(_trial(gamma, temperature, own, plain))
    return found


def _trial(gamma: int, temperature: float, own: Sequence[Decoded], plain: Sequence[Decoded]) -> Trial:
    pairs = [pair for pair in zip(own, plain, strict=True) if not any(each.loops for each in pair)]
    if not pairs:
        return Trial(gamma, temperature, 0.0, 0.0, 0.0, 0)
    unit = median(plain.spent / plain.rounds for _, plain in pairs)
    return Trial(
        gamma,
        temperature,
        tau=sum(len(own.tokens) for own, _ in pairs) / sum(own.rounds for own, _ in pairs),
        ratio=median(len(a.tokens) / a.spent * b.spent / len(b.tokens) for a, b in pairs),
        c=median(own.proposing / own.rounds for own, _ in pairs) / gamma / unit,
        prompts=len(pairs),
    )


def _decoded(lab: Lab, prompt: Prompt, temperature: float, **drafting: Any) -> Decoded:
    settings = Settings.of(temperature=temperature, max_new_tokens=TOKENS, **drafting)
    tokens = lab.encode(prompt.text, settings.max_new_tokens)
    session = lab.session_of([tokens], settings, (0,))
    rounds, spent, proposing = 0, 0.0, 0.0
    for step in session.steps():
        rounds += 1
        spent += step.end - step.start
        proposing += step.stages["propose"]
    return Decoded(list(session.transcripts[0].tokens), rounds, spent, proposing)
