"""Random streams keyed by (seed, sequence, round, node, purpose, tier), so that no random number is used twice.

Philox is counter-based: key and counter select a stream, so any number can be computed without the ones before it, and
a sequence's uniforms do not depend on the other sequences of the batch. Keying by *position* instead of by round looks
equivalent but is biased: after a block was cut short, the next round would reuse uniforms that decided this one.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from draftscope.verify.copies import tensors_on
from draftscope.verify.philox import uniforms_of_streams

MANY = 128  # sequences, from which on all streams are computed at once; for 64 that takes 1.3 times as long


class Purpose(IntEnum):
    """What a uniform decides. Append new purposes at the end: the numbers key the streams of recorded runs."""

    DRAFT = 0  # which token is drafted at a node
    ACCEPT = 1  # whether a node is accepted
    LAST = 2  # which token the target draws after a slot


@dataclass(frozen=True)
class Uniforms:
    """The uniform random numbers of one round, fp64 in [0, 1)."""

    draft: Tensor  # [B, N]
    accept: Tensor  # [B, N]
    last: Tensor  # [B, N + 1]

    def first(self, nodes: int) -> Uniforms:
        """The uniforms of the first `nodes` nodes, for a round that drafted fewer than the maximum."""
        if nodes == self.draft.shape[1]:
            return self
        return Uniforms(self.draft[:, :nodes], self.accept[:, :nodes], self.last[:, : nodes + 1])


@lru_cache(maxsize=64)
def no_uniforms(batch: int, nodes: int, device: torch.device | str = "cpu") -> Uniforms:
    """Zeros, for a greedy round, which needs no random numbers."""
    zeros = torch.zeros((batch, nodes + 1), dtype=torch.float64, device=device)
    return Uniforms(zeros[:, :nodes], zeros[:, :nodes], zeros)


@dataclass(frozen=True)
class Streams:
    """The random streams of B sequences. `sequences` are the ids that key the rows, `tier` that of a nested session."""

    seed: int
    sequences: tuple[int, ...]
    tier: int = 0

    def below(self, tier: int) -> Streams:
        """The streams of a session nested in this one, `tier` 1 to 7. Tier 0 is the target's own session.

        The key encodes the path of tiers in octal digits, so no two sessions share a stream.
        """
        return replace(self, tier=8 * self.tier + tier)

    def only(self, rows: list[int]) -> Streams:
        """The streams of the sequences at `rows`."""
        return replace(self, sequences=tuple(self.sequences[row] for row in rows))

    def uniforms(self, round_index: int, nodes: int, device: torch.device | str = "cpu") -> Uniforms:
        """All uniforms that a round of at most `nodes` nodes may need."""
        draft = self._draw(round_index, Purpose.DRAFT, nodes)
        accept = self._draw(round_index, Purpose.ACCEPT, nodes)
        last = self._draw(round_index, Purpose.LAST, nodes + 1)
        return Uniforms(*tensors_on(device, draft, accept, last))

    def _draw(
        self, round_index: int, purpose: Purpose, count: int
    ) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        """[B, count] uniforms. The first counter word counts nodes, so a longer draw starts with the shorter one."""
        if count == 0:
            return np.empty((len(self.sequences), 0))
        if len(self.sequences) >= MANY:
            return uniforms_of_streams(self.seed, self.sequences, round_index, purpose, self.tier, count)
        rows = [uniforms(self.seed, s, round_index, purpose, self.tier, count) for s in self.sequences]
        return rows[0][None] if len(rows) == 1 else np.stack(rows)


@dataclass(frozen=True)
class Given(Streams):
    """Precomputed uniforms for rounds that draft nothing: `table` [B, rounds], one for the token of each round."""

    table: Tensor = field(default_factory=lambda: torch.empty(0))

    def only(self, rows: list[int]) -> Given:
        return replace(self, sequences=tuple(self.sequences[row] for row in rows), table=self.table[rows])

    def uniforms(self, round_index: int, nodes: int, device: torch.device | str = "cpu") -> Uniforms:
        unused = torch.empty((len(self.sequences), nodes), dtype=torch.float64, device=device)
        return Uniforms(unused, unused, self.table[:, round_index, None].to(device))


def uniforms(
    seed: int, sequence: int, round_index: int, purpose: int, tier: int, count: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The first `count` uniforms of one stream, one for each node."""
    counter, key, generator = _THREAD.counter, _THREAD.key, _THREAD.generator
    counter[1], counter[2], counter[3] = round_index, purpose, tier
    key[0], key[1] = seed, sequence
    generator.bit_generator.state = _THREAD.state
    return generator.random(count)


class _StreamThread(threading.local):
    """One generator a thread and the state written to it, both reused: creating either takes longer than a draw."""

    def __init__(self) -> None:
        self.generator = np.random.Generator(np.random.Philox(0))
        self.counter = np.zeros(4, dtype=np.uint64)  # the first word counts the blocks of a stream
        self.key = np.zeros(2, dtype=np.uint64)
        self.state = {
            "bit_generator": "Philox",
            "state": {"counter": self.counter, "key": self.key},
            "buffer": np.zeros(4, dtype=np.uint64),
            "buffer_pos": 4,
            "has_uint32": 0,
            "uinteger": 0,
        }


_THREAD = _StreamThread()
