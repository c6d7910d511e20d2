"""What an audit asks for, and with what certainty it may answer."""

from __future__ import annotations

import math
from dataclasses import dataclass

from draftscope.base.errors import DraftscopeError
from draftscope.verify.sampling import Sampling

SAMPLED = Sampling()  # temperature 1, nothing truncated
MIN_TOLERANCE = 5e-4  # nats a token: logits that are off by a normal error of .03
MAX_TOLERANCE = 0.1
# What a server continues: texts of which some repeat themselves, so that n-grams draft too.
AUDIT_PROMPTS = (
    "The old man walked down to the sea. The old man",
    '{"name": "Ada", "age": 31, "city": "Paris"}\n{"name": "Ben", "age": 27, "city": "Rome"}\n{"name": "',
    "Question: What is 2 + 3?\nAnswer: 5\nQuestion: What is 4 + 4?\nAnswer: 8\nQuestion: What is",
    "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return a - b\n\ndef",
)


@dataclass(frozen=True)
class Plan:
    """How an audit samples and when it ends. `tolerance` None: measured."""

    sampling: Sampling = SAMPLED
    samples: int = 400
    tokens: int = 12  # of each text, at most
    seconds: float = 300.0
    concurrency: int = 4  # requests at once, all with the same prompt
    false_alarm: float = 1e-6  # chance, however often one looks
    tolerance: float | None = None  # nats a token by which an honest server's probabilities may differ
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("samples", self.samples, 1, 10**6),
            ("tokens", self.tokens, 1, 1024),
            ("concurrency", self.concurrency, 1, 256),
        ):
            if not least <= value <= most:
                raise DraftscopeError(f"{name} = {value}: choose {least} to {most:,}.")
        if not 0 < self.false_alarm <= 0.5:
            raise DraftscopeError(f"false alarm = {self.false_alarm:g}: choose a chance above 0 and at most .5.")
        if not 0 < self.seconds < math.inf:
            raise DraftscopeError(f"seconds = {self.seconds:g}: choose a time above 0.")
        if self.tolerance is not None and not 0 <= self.tolerance <= MAX_TOLERANCE:
            raise DraftscopeError(f"tolerance = {self.tolerance:g}: choose 0 to {MAX_TOLERANCE:g} nats a token.")

    @property
    def waves(self) -> list[range]:
        """The numbers of the requests that are made at once."""
        every = range(self.samples)
        return [every[first : first + self.concurrency] for first in every[:: self.concurrency]]

    @property
    def allowance(self) -> Allowance:
        """Where nothing is measured."""
        return Allowance() if self.tolerance is None else Allowance(self.tolerance)


@dataclass(frozen=True)
class Allowance:
    """How far the probabilities of an honest server may lie from the target's, because its kernels round differently.

    The null hypothesis is: at every token the server samples from some p' with chi-square divergence
    chi2(p' || p) <= eta^2. Logits with small independent errors of standard deviation s have chi2 near s^2 or less,
    and KL(p' || p) near chi2 / 2, which is what `nats` states.

    For any bet e with mean 1 under p (Cauchy and Schwarz): E_p'[e] <= 1 + eta * sd_p(e). Dividing every bet by that
    bound, which is known before the token is, makes its product a supermartingale under all those p'.
    """

    nats: float = MIN_TOLERANCE

    @property
    def eta(self) -> float:
        return math.sqrt(2 * self.nats)

    @property
    def logit(self) -> float:
        """The largest error of one logit that is allowed for: four standard deviations."""
        return 4 * self.eta
