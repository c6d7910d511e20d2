"""What a benchmark keeps of the rounds of a run: small arrays, made when the clock has stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from draftscope.base.text import Fed
from draftscope.decode.session import Step

STAGES = ("propose", "verify", "accept", "commit", "host")


class KeptStep(NamedTuple):
    """What is taken from a step while the clock runs: nothing but references."""

    nodes: int
    rows: Sequence[int]  # [B] which sequences these are
    stages: Mapping[str, float]  # ms
    paths: Sequence[Sequence[int]]  # [B]
    fed: Sequence[Fed | None]  # [B]
    never_accepted: Tensor  # [B, N]
    depth: Tensor  # [B, N + 1]

    @classmethod
    def of(cls, step: Step) -> KeptStep:
        tree = step.tree
        return cls(tree.nodes, step.rows, step.stages, step.paths, step.fed, tree.never_accepted, tree.topology.depth)


@dataclass(frozen=True)
class Rounds:
    """R rounds of B sequences. A sequence that had ended has zeros."""

    width: NDArray[np.int64]  # [R] rows of the target's forward
    stages: NDArray[np.float64]  # [R, 5] ms, in the order of STAGES
    emitted: NDArray[np.int64]  # [R, B]
    accepted: NDArray[np.int64]  # [R, B] drafted tokens that were accepted and emitted
    depth: NDArray[np.int64]  # [R, B] of the deepest drafted token; 0 where none was drafted

    @classmethod
    def of(cls, kept: Sequence[KeptStep]) -> Rounds:
        """At least one round; the first is of all sequences."""
        form = len(kept), len(kept[0].rows)
        emitted, accepted, depth = (np.zeros(form, dtype=np.int64) for _ in range(3))
        for index, each in enumerate(kept):
            levels = (each.depth[:, 1:] * each.never_accepted.logical_not()).tolist()
            for row, path, fed, own in zip(each.rows, each.paths, each.fed, levels, strict=True):
                if fed is not None:
                    emitted[index, row] = fed.count
                    accepted[index, row] = min(len(path), fed.count)
                    depth[index, row] = max(own, default=0)
        return cls(
            width=np.array([each.nodes + 1 for each in kept]),
            stages=np.array([[each.stages[stage] for stage in STAGES] for each in kept]),
            emitted=emitted,
            accepted=accepted,
            depth=depth,
        )

    @classmethod
    def joined(cls, several: Sequence[Rounds]) -> Rounds:
        """The rounds of several runs, one after the other."""
        return cls(
            width=np.concatenate([rounds.width for rounds in several]),
            stages=np.concatenate([rounds.stages for rounds in several]),
            emitted=np.concatenate([rounds.emitted for rounds in several]),
            accepted=np.concatenate([rounds.accepted for rounds in several]),
            depth=np.concatenate([rounds.depth for rounds in several]),
        )

    def stage_ms(self) -> dict[str, float]:
        """Milliseconds of each stage in a round: medians at each width, weighted by how often that width occurred."""
        total = np.zeros(len(STAGES))
        for width in np.unique(self.width):
            own = self.stages[self.width == width]
            total += len(own) * np.median(own, axis=0)
        return dict(zip(STAGES, (total / len(self.width)).tolist(), strict=True))

    def mean_acceptance_length(self) -> float:
        """1 + accepted / rounds that drafted, the rounds of every sequence counted; 1 where none drafted."""
        drafts = self.depth > 0
        return 1 + int(self.accepted[drafts].sum()) / int(drafts.sum()) if drafts.any() else 1.0

    def conditional_alpha(self) -> list[float | None]:
        """For each position the share that accepted it, of the rounds that reached it and had drafted so far.

        Where a text was cut off behind an accepted token, nobody saw what came after; None where no round got there.
        """
        rates: list[float | None] = []
        for position in range(int(self.depth.max())):
            cut = (self.emitted == self.accepted) & (self.accepted == position)
            asked = (self.depth > position) & (self.accepted >= position) & ~cut
            stood = self.accepted > position
            rates.append(float(stood[asked].mean()) if asked.any() else None)
        return rates

    def tokens_per_round(self) -> float:
        """Per sequence; one that has ended while others go on counts as writing nothing."""
        return float(self.emitted.mean())

    def tokens_per_s_while_full(self) -> float:
        """Of all sequences together, up to the round in which the first of them ends; prefill is not in it."""
        last = len(self.emitted) - (self.emitted[::-1] > 0).argmax(0)  # [B] rounds until each has ended
        first = int(last.min())
        return float(1e3 * self.emitted[:first].sum() / self.stages[:first].sum())

    def ms_per_token(self, parts: int) -> list[float]:
        """Milliseconds a token by `parts` equal parts of the generated length, which must not be shorter than that.

        The tokens that a round wrote share its time. These are the rounds of one run; all sequences write as much.
        """
        tokens = int(self.emitted[:, 0].sum())
        share = self.stages.sum(1) / self.emitted.sum(1)
        spent, wrote = np.zeros(parts), np.zeros(parts)
        for counts in self.emitted.T:  # [R]
            part = np.arange(tokens) * parts // tokens
            np.add.at(spent, part, np.repeat(share, counts))
            np.add.at(wrote, part, 1)
        return (spent / wrote).tolist()  # type: ignore[no-any-return]
