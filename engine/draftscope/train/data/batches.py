"""The text of each training step: a pure function of (seed, step).

An interrupted run therefore only needs to save its step. Blocks of 1,024 tokens are dealt like cards: in every shuffled
deck of 64 each domain has its exact share, proportional to the square root of its size. Large domains still dominate,
and small ones (verse, code) are read about twice as often as in proportion to size.
"""

from __future__ import annotations

import numpy as np
import torch

from draftscope.train.data.corpus import BLOCK, Domain, Tokens

DECK = 64


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
