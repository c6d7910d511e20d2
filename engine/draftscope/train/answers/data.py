"""The answers of a training step: a pure function of (answers, seed, step), so that an interrupted run resumes exactly.

Answers of similar length go together, because shorter ones are padded to the longest.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from draftscope.base.errors import DraftscopeError
from draftscope.train.answers import shards
from draftscope.train.answers.shards import Answer

SORTED = 256  # answers among which similar lengths are looked for: few enough that a step has a mix of texts
PER_KIND = 2  # held-out answers of one kind, at most, in the figures while training
FEWEST = 2  # held-out answers


class AnswerBatches:
    """Every epoch has all answers once, in another order."""

    def __init__(self, answers: Sequence[Answer], seed: int, tokens_per_step: int) -> None:
        self._answers = answers
        self._lengths = np.array([len(answer.ids) for answer in answers])
        self._seed = seed
        self._tokens = tokens_per_step
        self._ends: list[int] = []  # the step after each epoch so far
        self._epoch: tuple[int, list[list[int]]] = -1, []

    def step(self, step: int) -> list[Answer]:
        """The answers of a step: as many as have at most `tokens_per_step` tokens, padding included, at least one."""
        while not self._ends or self._ends[-1] <= step:
            self._ends.append((self._ends or [0])[-1] + len(self._steps(len(self._ends))))
        epoch = next(number for number, end in enumerate(self._ends) if step < end)
        first = self._ends[epoch - 1] if epoch else 0
        return [self._answers[place] for place in self._steps(epoch)[step - first]]

    def _steps(self, epoch: int) -> list[list[int]]:
        """The answers of each step of an epoch."""
        if self._epoch[0] != epoch:
            random = np.random.default_rng([self._seed, epoch])
            order = random.permutation(len(self._answers))
            found: list[list[int]] = []
            for start in range(0, len(order), SORTED):
                part = order[start : start + SORTED]
                found += self._grouped(part[np.argsort(self._lengths[part], kind="stable")])
            self._epoch = epoch, [found[place] for place in random.permutation(len(found))]
        return self._epoch[1]

    def _grouped(self, places: np.ndarray) -> list[list[int]]:
        """Answers in order of length, in groups that fit a step."""
        groups: list[list[int]] = [[]]
        for place in places.tolist():
            if groups[-1] and (len(groups[-1]) + 1) * self._lengths[place] > self._tokens:
                groups.append([])
            groups[-1].append(place)
        return groups


def load(folder: Path, layers: tuple[int, ...]) -> tuple[list[Answer], list[Answer]]:
    """All answers in `folder`, to train on and held out. Raises `DraftscopeError` if there are too few."""
    every = [answer for path in shards.batches(folder) for answer in shards.read(path, layers)]
    train, held = [[a for a in every if a.held_out is side] for side in (False, True)]
    if not train or len(held) < FEWEST:
        raise DraftscopeError(
            f"{folder} has {len(train)} answers to train on and {len(held)} held out; at least 1 and {FEWEST} are "
            "needed: raise --tokens, or give more prompts."
        )
    return train, held


def by_kind(answers: Sequence[Answer], most: int) -> dict[str, list[Answer]]:
    """The first `most` answers of each kind."""
    found: dict[str, list[Answer]] = {}
    for answer in answers:
        found.setdefault(answer.kind, []).append(answer)
    return {kind: members[:most] for kind, members in sorted(found.items())}
