"""The joint distribution of the next tokens: the target's own, computed path by path, and what the real loop writes,
sampled; and how far the two are apart."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from draftscope.base.steps import Steps, last, mapped_to
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.lane import Lane
from draftscope.decode.session import Step
from draftscope.drafters.settings import Settings
from draftscope.verify.sampling import Sampling

MIN_DUE = 5  # times an outcome must be expected to be compared by itself
BATCH = 256  # runs decoded together

Joint = dict[tuple[int, ...], float]
Counts = Counter[tuple[int, ...]]


@dataclass(frozen=True)
class Distance:
    """The distance of the joint distribution of `tokens` tokens, sampled in `samples` runs, from the target's own.

    `sampling_*` is how far as many samples of the target's very distribution are expected to lie from it. KL is in
    nats, of what was written to the target's distribution; None where infinite.
    """

    total_variation: float
    kl: float | None
    sampling_total_variation: float
    sampling_kl: float
    tokens: int
    top_k: int
    samples: int


def joint_distance(
    engine: DecodingEngine, prompt: list[int], settings: Settings, length: int, samples: int
) -> Distance:
    """Samples the joint distribution of `length` tokens after `prompt` with the real loop, and measures its distance
    from the target's own."""
    observed = sampled_joint(engine, prompt, settings, length, samples)
    return distance_of(expected_joint(engine, prompt, settings, length), settings, length, samples, observed)


def distance_of(expected: Joint, settings: Settings, length: int, samples: int, observed: Counts) -> Distance:
    observed = along(observed, expected)
    apart, divergence = distances({outcome: seen / samples for outcome, seen in observed.items()}, expected)
    return Distance(
        total_variation=apart,
        kl=divergence if math.isfinite(divergence) else None,
        sampling_total_variation=sum(math.sqrt(p * (1 - p) / (2 * math.pi * samples)) for p in expected.values()),
        sampling_kl=(len(expected) - 1) / (2 * samples),
        tokens=length,
        top_k=settings.top_k,
        samples=samples,
    )


def distances(written: Joint, target: Joint) -> tuple[float, float]:
    """Total variation of two joint distributions, and KL(written || target) in nats, which may be infinite."""
    outcomes = written.keys() | target.keys()
    apart = sum(abs(written.get(outcome, 0.0) - target.get(outcome, 0.0)) for outcome in outcomes) / 2
    if any(mass and not target.get(outcome) for outcome, mass in written.items()):
        return apart, math.inf
    return apart, sum(mass * math.log(mass / target[outcome]) for outcome, mass in written.items() if mass)


def expected_joint(engine: DecodingEngine, prompt: list[int], settings: Settings, length: int) -> Joint:
    """The target's own distribution of the next `length` tokens, as these settings sample, in one step: `length`
    forwards."""
    return exact_joint(engine, prompt, Sampling.of(settings), length, unclear=rounding_of_logits(engine))


@torch.inference_mode()
def exact_joint(
    engine: DecodingEngine, prompt: list[int], sampling: Sampling, length: int, unclear: float = 0.0
) -> Joint:
    """The target's own distribution of the next `length` tokens, with every prefix read from scratch.

    Where the last logit that top-k keeps leads the first that it drops by less than the share `unclear` of its size,
    rounding decides what is kept, and two right forwards may disagree. Such a prefix is an outcome by itself.
    """
    joint: Joint = {(): 1.0}
    ended: Joint = {}
    for _ in range(length):
        prefixes = list(joint)
        rows = torch.tensor([[*prompt, *prefix] for prefix in prefixes], device=engine.target.device)
        offsets = torch.arange(rows.shape[1], device=rows.device).expand(len(prefixes), -1)
        cache = engine.target.cache(len(prefixes), rows.shape[1])
        logits = engine.target.forward(cache, rows, offsets, last_only=True)[:, 0]
        for prefix, row in zip(prefixes, logits.float(), strict=True):
            if edge(row, sampling.top_k) < unclear:
                ended[prefix] = joint.pop(prefix)
        distributions = sampling.distribution(logits).double().cpu()
        distributions = distributions / distributions.sum(-1, keepdim=True)
        joint = {
            (*prefix, token): joint[prefix] * float(distribution[token])
            for prefix, distribution in zip(prefixes, distributions, strict=True)
            for token in distribution.nonzero()[:, 0].tolist()
            if prefix in joint
        }
        if not joint:
            break
    return joint | ended


def edge(logits: Tensor, top_k: int) -> float:
    """The difference of the last logit [V] that top-k keeps and the first that it drops, relative to their size."""
    if not 0 < top_k < len(logits):
        return math.inf
    *_, kept, dropped = logits.topk(top_k + 1).values.tolist()
    return float((kept - dropped) / max(abs(kept), 1.0))


def rounding_of_logits(engine: DecodingEngine) -> float:
    """Logits closer than four steps of the target's number format may change order between forwards."""
    return 4.0 * torch.finfo(engine.target.dtype).eps


def along(observed: Counts, expected: Joint) -> Counts:
    """The observed outcomes, shortened to prefixes that are outcomes of `expected`."""
    counts: Counts = Counter()
    for outcome, seen in observed.items():
        counts[next((outcome[:k] for k in range(len(outcome)) if outcome[:k] in expected), outcome)] += seen
    return counts


def sampled_joint(
    engine: DecodingEngine,
    prompt: list[int],
    settings: Settings,
    length: int,
    samples: int,
    batch: int = BATCH,
    whole: bool = False,
) -> Counts:
    """How often the real loop wrote each outcome. Every sample has its own random stream.

    A sequence ends once its outcome is written, which no later round changes. `whole` decodes it to its end: for
    drafters that decide for all rows of a batch together.
    """
    runs = sampling(engine, prompt, settings, length, samples, batch, (lambda _: None) if whole else None)
    return last(runs)


def sampling(
    engine: DecodingEngine,
    prompt: list[int],
    settings: Settings,
    length: int,
    samples: int,
    batch: int = BATCH,
    seen: Callable[[Step], None] | None = None,
    first: int = 0,
) -> Steps[float, Counts]:
    """`sampled_joint`, round by round: yields the share of the tokens that are written. `seen` is called with every
    round of the whole runs. The random streams are those from number `first` on: other runs must have others."""
    lane = Lane.of(engine, settings.model_copy(update={"max_new_tokens": length + 2}))
    if not engine.batches:
        batch = 1  # this model decodes one text at a time
    counts: Counts = Counter()
    for start in range(0, samples, batch):
        ids = range(start, min(start + batch, samples))
        streams = tuple(first + index for index in ids)
        opening = engine.opening_batch([prompt] * len(ids), lane, streams, ends=False)
        session = yield from mapped_to(opening, start / samples)
        for step in session.steps():
            written = [len(transcript.tokens) for transcript in session.transcripts]
            if seen is None:
                session.stop({row for row, tokens in enumerate(written) if tokens >= length})
            else:
                seen(step)
            yield (start + sum(written) / (length + 2)) / samples
        counts.update(tuple(transcript.tokens[:length]) for transcript in session.transcripts)
    return counts


def chi_square(observed: Counts, expected: Joint, samples: int) -> tuple[float, int, float]:
    """Statistic, degrees of freedom and p-value. Outcomes expected fewer than `MIN_DUE` times are pooled.

    An outcome that the target cannot write gives p = 0.
    """
    if any(outcome not in expected for outcome in observed):
        return float("inf"), len(expected) - 1, 0.0
    cells: list[tuple[float, float]] = []
    rare_seen = rare_due = 0.0
    for outcome, probability in expected.items():
        due = probability * samples
        if due >= MIN_DUE:
            cells.append((observed[outcome], due))
        else:
            rare_seen, rare_due = rare_seen + observed[outcome], rare_due + due
    if rare_due > 0:
        cells.append((rare_seen, rare_due))
    if len(cells) < 2:
        return 0.0, 0, 1.0
    from scipy import stats  # not at the top: it takes longer to import than the rest of this module

    seen, due = np.array(cells).T
    result = stats.chisquare(seen, due * seen.sum() / due.sum())  # they sum to 1 except for rounding
    return float(result.statistic), len(cells) - 1, float(result.pvalue)


def detectable_variation(freedom: int, samples: int, false_alarm: float, power: float = 0.9) -> float:
    """The smallest total variation that `chi_square` finds with a probability of `power` or more, whichever way the
    distributions differ: sum (d^2 / p) is at least (sum |d|)^2, so a variation v makes its noncentrality 4 n v^2."""
    from scipy import optimize, stats

    bound = stats.chi2.isf(false_alarm, freedom)
    least = optimize.brentq(lambda size: stats.ncx2.sf(bound, freedom, size) - power, 1e-6, 10 * (bound + 10))
    return math.sqrt(least / samples) / 2
