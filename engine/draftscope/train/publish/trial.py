"""A drafter in the real loop: tau, its cost and its speed, on held-out prompts in chains of several lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from draftscope.base.prompts import Prompt
from draftscope.decode.lab import Lab
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.statistics import LOOP, repeated_4grams

GAMMAS, TEMPERATURES, TOKENS = (2, 3, 4, 6), (0.0, 1.0), 96


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


def trials(lab: Lab, drafter: str, prompts: Sequence[Prompt], most: int) -> list[Trial]:
    """Every gamma up to `most` at every temperature; answers that loop do not count."""
    return [
        _trial(lab, drafter, prompts, gamma, temperature)
        for temperature in TEMPERATURES
        for gamma in GAMMAS
        if gamma <= most
    ]


def _trial(lab: Lab, drafter: str, prompts: Sequence[Prompt], gamma: int, temperature: float) -> Trial:
    pairs = []
    for prompt in prompts:
        plain = _decoded(lab, prompt, Settings.of(drafter="plain", temperature=temperature, max_new_tokens=TOKENS))
        chosen = Settings.of(drafter=drafter, gamma=gamma, temperature=temperature, max_new_tokens=TOKENS)
        own = _decoded(lab, prompt, chosen)
        if max(repeated_4grams(own.tokens), repeated_4grams(plain.tokens)) <= LOOP:
            pairs.append((own, plain))
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


def _decoded(lab: Lab, prompt: Prompt, settings: Settings) -> Decoded:
    tokens = lab.encode(prompt.text, settings.max_new_tokens)
    session = lab.session_of([tokens], settings, (0,))
    rounds, spent, proposing = 0, 0.0, 0.0
    for step in session.steps():
        rounds += 1
        spent += step.end - step.start
        proposing += step.stages["propose"]
    return Decoded(list(session.transcripts[0].tokens), rounds, spent, proposing)
