"""Random streams keyed by (seed, sequence, round, node, purpose, tier): no draw is ever used twice.

Philox is counter-based: key and counter name a stream, so any draw can be made again without the ones before it, and a
sequence's uniforms do not depend on its neighbours in the batch. Keying by *position* instead of by round looks
equivalent and is biased: after a block was cut short, the next round would meet the very uniforms that decided this
one.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np
import torch
from torch import Tensor


class Purpose(IntEnum):
    """What a uniform decides. New purposes go at the end: their numbers key the streams of recorded runs."""

    DRAFT = 0  # which token a node draws
    ACCEPT = 1  # whether a node is accepted
    LAST = 2  # which token the target draws below a slot


@dataclass(frozen=True)
class Uniforms:
    """The uniform draws of one round, fp64 in [0, 1)."""

    draft: Tensor  # [B, N]
    accept: Tensor  # [B, N]
    last: Tensor  # [B, N + 1]

    def first(self, nodes: int) -> Uniforms:
        """The uniforms of the first `nodes` nodes: what a round uses that drafted fewer than it might have."""
        return Uniforms(self.draft[:, :nodes], self.accept[:, :nodes], self.last[:, : nodes + 1])


def no_uniforms(batch: int, nodes: int, device: torch.device | str = "cpu") -> Uniforms:
    """What a greedy round tosses: nothing."""
    none = torch.zeros((batch, nodes + 1), dtype=torch.float64, device=device)
    return Uniforms(none[:, :nodes], none[:, :nodes], none)


@dataclass(frozen=True)
class Streams:
    """Draws for B sequences. `sequences` are the ids that key each row; `tier` tells nested sessions apart."""

    seed: int
    sequences: tuple[int, ...]
    tier: int = 0

    def below(self, tier: int) -> Streams:
        """The streams of tier 1 to 7 inside this one: the key spells the way there, so no two tiers share any.

        Tier 0 is the target's own session.
        """
        return replace(self, tier=8 * self.tier + tier)

    def only(self, rows: list[int]) -> Streams:
        """Those of some sequences."""
        return replace(self, sequences=tuple(self.sequences[row] for row in rows))

    def uniforms(self, round_index: int, nodes: int, device: torch.device | str = "cpu") -> Uniforms:
        """Every uniform that a round of at most `nodes` nodes may need."""
        draft = self._draw(round_index, Purpose.DRAFT, nodes)
        accept = self._draw(round_index, Purpose.ACCEPT, nodes)
        last = self._draw(round_index, Purpose.LAST, nodes + 1)
        return Uniforms(*(torch.from_numpy(rows).to(device) for rows in (draft, accept, last)))

    def _draw(
        self, round_index: int, purpose: Purpose, count: int
    ) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        """[B, count] uniforms; the first counter word runs over nodes, so a longer draw begins like a shorter one."""
        if count == 0:
            return np.empty((len(self.sequences), 0))
        return np.stack([uniforms(self.seed, s, round_index, purpose, self.tier, count) for s in self.sequences])


@dataclass(frozen=True)
class Given(Streams):
    """Uniforms for rounds that draft nothing, laid down beforehand: `table` [B, rounds], one for each round's token."""

    table: Tensor = field(default_factory=lambda: torch.empty(0))

    def only(self, rows: list[int]) -> Given:
        return replace(self, sequences=tuple(self.sequences[row] for row in rows), table=self.table[rows])

    def uniforms(self, round_index: int, nodes: int, device: torch.device | str = "cpu") -> Uniforms:
        none = torch.empty((len(self.sequences), nodes), dtype=torch.float64, device=device)
        return Uniforms(none, none, self.table[:, round_index, None].to(device))


def uniforms(
    seed: int, sequence: int, round_index: int, purpose: int, tier: int, count: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """`count` uniforms of one stream, node by node."""
    philox = getattr(_OWN, "philox", None)
    if philox is None:  # making one takes longer than setting its state
        philox = _OWN.philox = np.random.Generator(np.random.Philox(0))
    philox.bit_generator.state = {
        "bit_generator": "Philox",
        "state": {
            "counter": np.array([0, round_index, purpose, tier], dtype=np.uint64),
            "key": np.array([seed, sequence], dtype=np.uint64),
        },
        "buffer": np.zeros(4, dtype=np.uint64),
        "buffer_pos": 4,
        "has_uint32": 0,
        "uinteger": 0,
    }
    return philox.random(count)


_OWN = threading.local()
