"""The rounds of a run as small arrays, made after the clock has stopped, and the speedup that they predict.

S = tau / (gamma c + v + o), and the prefill: tau is the number of tokens in a round, gamma c the cost of proposing, v
the cost of verification at that width, and o that of the rest of the round: accept, commit, host, and what lies between
rounds, where no stage's clock runs. The unit of all three is one round of plain decoding, so plain's own terms sum to
1. A run of n tokens takes what comes before its first round and then n / tau rounds. All terms are medians of single
parts and none is a whole run's time, so measured and predicted differ by how far a run's rounds are from the median
round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from draftscope.base.text import AddedText
from draftscope.decode.session import Session, Step

STAGES = ("propose", "verify", "accept", "commit", "host")


class KeptStep(NamedTuple):
    """The parts of a step that a benchmark needs, by reference: copying would be timed."""

    nodes: int
    rows: Sequence[int]  # [B] the sequence in each row
    stages: Mapping[str, float]  # ms
    paths: Sequence[Sequence[int]]  # [B]
    fed: Sequence[AddedText | None]  # [B]
    never_accepted: Tensor  # [B, N]
    depth: Tensor  # [B, N + 1]
    between: float = 0.0  # ms before the round that no stage's clock has

    @classmethod
    def of(cls, step: Step, between: float = 0.0) -> KeptStep:
        tree = step.tree
        return cls(
            tree.nodes, step.rows, step.stages, step.paths, step.fed, tree.never_accepted, tree.topology.depth, between
        )


def timed_steps(session: Session) -> Iterator[tuple[Step, KeptStep]]:
    """Every step of a session that has read its prompt, and what is kept of it.

    The stages' clock stands still between rounds, a reader's does not: `between` is that time. What the caller does
    with a step is left out.
    """
    began = perf_counter()
    for step in session.steps():
        ended = perf_counter()
        kept = KeptStep.of(step, 1e3 * (ended - began) - sum(step.stages.values()))
        keeping = perf_counter() - ended
        yield step, kept
        began = perf_counter() - keeping


@dataclass(frozen=True)
class MeasuredRounds:
    """R rounds of B sequences, with zeros for a sequence that had ended."""

    width: NDArray[np.int64]  # [R] rows of the target's forward
    stages: NDArray[np.float64]  # [R, 5] ms, in the order of STAGES
    emitted: NDArray[np.int64]  # [R, B]
    accepted: NDArray[np.int64]  # [R, B] drafted tokens that were accepted and emitted
    depth: NDArray[np.int64]  # [R, B] of the deepest drafted token; 0 where none was drafted
    between: NDArray[np.float64]  # [R] ms beside the stages

    @classmethod
    def of(cls, kept: Sequence[KeptStep]) -> MeasuredRounds:
        """From at least one step, of which the first has all sequences."""
        form = len(kept), len(kept[0].rows)
        emitted, accepted, depth = (np.zeros(form, dtype=np.int64) for _ in range(3))
        for index, step in enumerate(kept):
            levels = (step.depth[:, 1:] * step.never_accepted.logical_not()).tolist()
            for row, path, fed, depths in zip(step.rows, step.paths, step.fed, levels, strict=True):
                if fed is not None:
                    emitted[index, row] = fed.count
                    accepted[index, row] = min(len(path), fed.count)
                    depth[index, row] = max(depths, default=0)
        return cls(
            width=np.array([step.nodes + 1 for step in kept]),
            stages=np.array([[step.stages[stage] for stage in STAGES] for step in kept]),
            emitted=emitted,
            accepted=accepted,
            depth=depth,
            between=np.array([step.between for step in kept]),
        )

    @classmethod
    def joined(cls, several: Sequence[MeasuredRounds]) -> MeasuredRounds:
        """The rounds of several runs, one after the other."""
        return cls(*(np.concatenate([getattr(rounds, field.name) for rounds in several]) for field in fields(cls)))

    def only(self, chosen: NDArray[np.bool_]) -> MeasuredRounds:
        """The rounds [R] that are chosen."""
        return MeasuredRounds(*(getattr(self, field.name)[chosen] for field in fields(self)))

    @property
    def ms(self) -> NDArray[np.float64]:
        """[R]: milliseconds of each round as a reader waits for it: its stages and what is beside them."""
        return np.asarray(self.stages.sum(1) + self.between)

    @property
    def between_ms(self) -> float:
        """Milliseconds beside the stages of a round, in the median."""
        return float(np.median(self.between))

    @property
    def round_ms(self) -> float:
        """Milliseconds of a round, from medians: its stages and what is beside them."""
        return sum(self.stage_ms().values()) + self.between_ms

    def stage_ms(self) -> dict[str, float]:
        """Milliseconds of each stage of a round: medians by width, weighted by how often each width occurred."""
        total = np.zeros(len(STAGES))
        for width in np.unique(self.width):
            times = self.stages[self.width == width]
            total += len(times) * np.median(times, axis=0)
        return dict(zip(STAGES, (total / len(self.width)).tolist(), strict=True))

    def mean_acceptance_length(self) -> float:
        """1 + accepted / rounds that drafted, over all sequences; 1 if no round drafted."""
        drafts = self.depth > 0
        return 1 + int(self.accepted[drafts].sum()) / int(drafts.sum()) if drafts.any() else 1.0

    def conditional_alpha(self) -> list[float | None]:
        """For each position, the share of accepted tokens among the rounds that reached it and had drafted it.

        A round in which the text ended counts only up to that position. None if no round reached a position.
        """
        rates: list[float | None] = []
        for position in range(int(self.depth.max())):
            cut = (self.emitted == self.accepted) & (self.accepted == position)
            reached = (self.depth > position) & (self.accepted >= position) & ~cut
            stood = self.accepted > position
            rates.append(float(stood[reached].mean()) if reached.any() else None)
        return rates

    def tokens_per_round(self) -> float:
        """Per sequence; after its end a sequence counts with 0 tokens while others continue."""
        return float(self.emitted.mean())

    def tokens_per_s_while_full(self) -> float:
        """Of all sequences together, until the round in which the first of them ends, without prefill."""
        last = len(self.emitted) - (self.emitted[::-1] > 0).argmax(0)  # [B] rounds until each has ended
        first = int(last.min())
        return float(1e3 * self.emitted[:first].sum() / self.ms[:first].sum())

    def gaps(self) -> NDArray[np.float64]:
        """Milliseconds between the tokens of a single sequence as a reader gets them: a round's first token comes with
        its end, the others at the same moment."""
        counts = self.emitted[:, 0]
        gaps = np.zeros(int(counts.sum()))
        wrote = counts > 0
        gaps[(np.cumsum(counts) - counts)[wrote]] = self.ms[wrote]
        return gaps

    def gap_ms(self) -> dict[str, float]:
        """Of the gaps the median, the 99th percentile and the standard deviation."""
        gaps = self.gaps()
        p50, p99 = np.quantile(gaps, [0.5, 0.99])
        return {"p50": float(p50), "p99": float(p99), "sd": float(gaps.std())}

    def ms_per_token(self, parts: int) -> list[float]:
        """Milliseconds per token, for each of `parts` equal parts of the generated text.

        Tokens of one round share its time equally. Only for the rounds of one run in which all sequences write equally
        many tokens, at least `parts`.
        """
        tokens = int(self.emitted[:, 0].sum())
        share = self.ms / self.emitted.sum(1)
        spent, wrote = np.zeros(parts), np.zeros(parts)
        for counts in self.emitted.T:  # [R]
            part = np.arange(tokens) * parts // tokens
            np.add.at(spent, part, np.repeat(share, counts))
            np.add.at(wrote, part, 1)
        return (spent / wrote).tolist()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Prediction:
    """The terms, in rounds of plain decoding. tau is the tokens of a round, of each sequence."""

    tau: float
    gamma_c: float
    v: float
    o: float
    tokens: int = 1  # of each sequence
    before: float = 0.0  # set-up and prefill
    plain_before: float = 0.0  # the same of plain decoding

    @property
    def cost(self) -> float:
        """Of a round."""
        return self.gamma_c + self.v + self.o

    @property
    def steady(self) -> float:
        """S of rounds alone, without what comes before them."""
        return self.tau / self.cost

    @property
    def ratio(self) -> float:
        """S of whole runs."""
        return (self.plain_before + self.tokens) / (self.before + self.tokens / self.steady)


@dataclass(frozen=True)
class PartTimes:
    """Rounds of one system in one cell, and the milliseconds before the first of them."""

    rounds: MeasuredRounds
    before_ms: float = 0.0


def predict(speculative: PartTimes, plain: PartTimes, tokens: int) -> Prediction:
    """The terms for runs of `tokens`, from a drafter's timings and plain's in one cell."""
    rounds, unit = speculative.rounds, plain.rounds.round_ms
    stages = rounds.stage_ms()
    rest = stages["accept"] + stages["commit"] + stages["host"] + rounds.between_ms
    return Prediction(
        tau=rounds.tokens_per_round(),
        gamma_c=stages["propose"] / unit,
        v=stages["verify"] / unit,
        o=rest / unit,
        tokens=tokens,
        before=speculative.before_ms / unit,
        plain_before=plain.before_ms / unit,
    )
