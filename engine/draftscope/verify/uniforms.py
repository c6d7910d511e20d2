"""Random streams keyed by (seed, sequence, round, node, purpose, tier), so that no random number is used twice.

Philox is counter-based: key and counter select a stream, so any number can be computed without the ones before it, and
a sequence's uniforms do not depend on the other sequences of the batch. Keying by *position* instead of by round looks
equivalent but is biased: after a block was cut short, the next round would reuse uniforms that decided this one.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import lru_cache
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from torch import Tensor

from draftscope.verify.copies import tensors_on

Words = np.ndarray[Any, np.dtype[np.uint64]]
Numbers = np.ndarray[Any, np.dtype[np.float64]]

MANY = 128  # sequences, from which on all streams are computed at once; for 64 that takes 1.3 times as long
ROUNDS = 10  # and all below: of Philox4x64-10
MULTIPLIERS = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
KEY_STEPS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
HALF, LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
WORDS = 4  # of a block, each of which gives one number
UNUSED_BITS = np.uint64(11)  # of a word's 64: a double has 53


class Purpose(IntEnum):
    """What a uniform decides. Append new purposes at the end: the numbers key the streams of recorded runs."""

    DRAFT = 0  # which token is drafted at a node
    ACCEPT = 1  # whether a node is accepted
    LAST = 2  # which token the target draws after a slot


@dataclass(frozen=True)
class DraftUniforms:
    """The uniform random numbers that a drafter draws with in one round, fp64 in [0, 1), and no others."""

    draft: Tensor  # [B, N]


@dataclass(frozen=True)
class Uniforms:
    """All uniform random numbers of one round, fp64 in [0, 1)."""

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

    def apart(self) -> Streams:
        """Other streams of the same sequences, whose seed follows from this one but does not lead back to it."""
        return Streams(int.from_bytes(sha256(f"{self.seed}/{self.tier}".encode()).digest()[:8]), self.sequences)

    def only(self, rows: list[int]) -> Streams:
        """The streams of the sequences at `rows`."""
        return replace(self, sequences=tuple(self.sequences[row] for row in rows))

    def uniforms(self, round_index: int, nodes: int, device: torch.device | str = "cpu") -> Uniforms:
        """All uniforms that a round of at most `nodes` nodes may need."""
        draft = self._draw(round_index, Purpose.DRAFT, nodes)
        accept = self._draw(round_index, Purpose.ACCEPT, nodes)
        last = self._draw(round_index, Purpose.LAST, nodes + 1)
        return Uniforms(*tensors_on(device, draft, accept, last))

    def _draw(self, round_index: int, purpose: Purpose, count: int) -> Numbers:
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


def uniforms(seed: int, sequence: int, round_index: int, purpose: int, tier: int, count: int) -> Numbers:
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


def uniforms_of_streams(
    seed: int, sequences: Sequence[int], round_index: int, purpose: int, tier: int, count: int
) -> Numbers:
    """[B, count]: the first `count` uniforms of each of B sequences' stream, bit for bit as `uniforms` gives them.

    NumPy sets one key and one counter at a time, some microseconds each. For the sequences of a large batch that takes
    longer than a forward of a small model; here all of them are computed by the same array operations (Philox4x64-10:
    Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3, SC 2011).
    """
    blocks = -(-count // WORDS)
    counter = [np.arange(1, blocks + 1, dtype=np.uint64)[None]]  # NumPy counts before it draws
    counter += [np.full((1, 1), word, dtype=np.uint64) for word in (round_index, purpose, tier)]
    keys = np.full((1, 1), seed, dtype=np.uint64), np.array(sequences, dtype=np.uint64)[:, None]
    words = np.stack(np.broadcast_arrays(*_philox(counter, keys)), -1)  # [B, blocks, 4]
    numbers = (words >> UNUSED_BITS).astype(np.float64).reshape(len(sequences), blocks * WORDS)
    return numbers[:, :count] * 2.0**-53


def _philox(counter: Sequence[Words], key: tuple[Words, Words]) -> tuple[Words, Words, Words, Words]:
    """The four words of each block: counters and keys of any shapes that broadcast."""
    a, b, c, d = counter
    first, second = key
    for _ in range(ROUNDS):
        (high, low), (other_high, other_low) = _product(a, MULTIPLIERS[0]), _product(c, MULTIPLIERS[1])
        a, b, c, d = other_high ^ b ^ first, other_low, high ^ d ^ second, low
        first, second = first + KEY_STEPS[0], second + KEY_STEPS[1]
    return a, b, c, d


def _product(words: Words, multiplier: np.uint64) -> tuple[Words, Words]:
    """The high and the low 64 bits of the 128 of each product."""
    low, high = words & LOW, words >> HALF
    by_low, by_high = multiplier & LOW, multiplier >> HALF
    middle = high * by_low + (low * by_low >> HALF)
    other = low * by_high + (middle & LOW)
    return high * by_high + (middle >> HALF) + (other >> HALF), words * multiplier
