"""The text of each training step, a pure function of (text, seed, step): an interrupted run only saves its step.

Blocks of 1,024 tokens of a corpus are dealt like cards: in every shuffled deck of 64 each domain has its exact share,
proportional to the square root of its size. Large domains still dominate, and small ones (verse, code) are read about
twice as often as in proportion to size. Of answers, those of similar length go together, because shorter ones are
padded to the longest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from draftscope.train.data.corpus import BLOCK, Domain, Tokens
from draftscope.train.data.saved_answers import TargetAnswer

DECK = 64
SORTED = 256  # answers among which similar lengths are looked for: few enough that a step has a mix of texts


class Batches:
    """Packed rows for any step; a block is one row of 1,024 tokens or two of 512."""

    def __init__(self, domains: list[Domain], seed: int, tokens_per_step: int) -> None:
        self._domains = domains
        self._seed = seed
        self._blocks = tokens_per_step // BLOCK
        self._cards = deck_shares([len(domain.tokens) for domain in domains])
        self._epochs: dict[int, tuple[int, Tokens]] = {}  # the shuffled text each domain is in

    def rows(self, step: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and the tokens that follow them, both [tokens_per_step / length, length]."""
        first = step * self._blocks
        blocks = np.stack([self._block(index) for index in range(first, first + self._blocks)])
        ids = torch.from_numpy(blocks.astype(np.int64))  # [blocks, BLOCK + 1]
        return ids[:, :-1].reshape(-1, length), ids[:, 1:].reshape(-1, length)

    def _block(self, index: int) -> Tokens:
        """Block `index` of the run, [BLOCK + 1]: deals its deck, then counts the earlier cards of its domain."""
        deck, place = divmod(index, DECK)
        unshuffled = np.repeat(np.arange(len(self._cards)), self._cards)
        dealt = np.random.default_rng([self._seed, deck]).permutation(unshuffled)
        which = int(dealt[place])
        turn = deck * self._cards[which] + int(np.count_nonzero(dealt[:place] == which))
        epoch, offset = divmod(turn, (len(self._domains[which].tokens) - 1) // BLOCK)
        return self._epoch(which, epoch)[offset * BLOCK : (offset + 1) * BLOCK + 1]

    def _epoch(self, which: int, epoch: int) -> Tokens:
        kept = self._epochs.get(which)
        if kept is None or kept[0] != epoch:
            kept = self._epochs[which] = (epoch, self._domains[which].shuffled(self._seed, epoch))
        return kept[1]


def deck_shares(sizes: list[int]) -> list[int]:
    """How many cards of a deck each domain gets: proportional to the square root of its size, at least one."""
    roots = np.sqrt(np.asarray(sizes, dtype=np.float64))
    exact = roots / roots.sum() * DECK
    cards = np.maximum(1, np.floor(exact)).astype(int)
    for which in np.argsort(cards - exact)[: max(0, DECK - int(cards.sum()))]:
        cards[which] += 1
    while cards.sum() > DECK:
        cards[np.argmax(cards)] -= 1
    return [int(count) for count in cards]


class AnswerBatches:
    """Every epoch has all answers once, in another order."""

    def __init__(self, answers: Sequence[TargetAnswer], seed: int, tokens_per_step: int) -> None:
        self._answers = answers
        self._lengths = np.array([len(answer.ids) for answer in answers])
        self._seed = seed
        self._tokens = tokens_per_step
        self._ends: list[int] = []  # the step after each epoch so far
        self._epoch: tuple[int, list[list[int]]] = -1, []

    def step(self, step: int) -> list[TargetAnswer]:
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
            steps: list[list[int]] = []
            for start in range(0, len(order), SORTED):
                part = order[start : start + SORTED]
                steps += self._grouped(part[np.argsort(self._lengths[part], kind="stable")])
            self._epoch = epoch, [steps[place] for place in random.permutation(len(steps))]
        return self._epoch[1]

    def _grouped(self, places: np.ndarray) -> list[list[int]]:
        """Answers in order of length, in groups that fit a step."""
        groups: list[list[int]] = [[]]
        for place in places.tolist():
            if groups[-1] and (len(groups[-1]) + 1) * self._lengths[place] > self._tokens:
                groups.append([])
            groups[-1].append(place)
        return groups
