"""Random numbers are never used twice, do not depend on each other, and are reproducible."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from draftscope.verify.uniforms import MANY, Purpose, Streams, uniforms, uniforms_of_streams


def test_every_part_of_the_key_changes_the_stream() -> None:
    keys = [(s, q, r, p, t) for s in (0, 1, 2**62) for q in (0, 1) for r in (0, 1, 2) for p in Purpose for t in (0, 1)]
    draws = np.concatenate([uniforms(*key, count=8) for key in keys])
    assert len(set(draws.tolist())) == 8 * len(keys)


def test_a_longer_draw_starts_with_the_shorter_one() -> None:
    assert uniforms(7, 3, 2, Purpose.ACCEPT, 0, 9)[:4].tolist() == uniforms(7, 3, 2, Purpose.ACCEPT, 0, 4).tolist()


def test_a_row_depends_only_on_its_own_sequence() -> None:
    together = Streams(5, (10, 11, 12)).uniforms(4, 6)
    alone = Streams(5, (11,)).uniforms(4, 6)
    for rows, row in zip(vars(together).values(), vars(alone).values(), strict=True):
        assert rows[1].equal(row[0])


@pytest.mark.parametrize("count", [1, 4, 9])
def test_many_streams_at_once_are_bit_for_bit_those_of_numpy(count: int) -> None:
    """Small words, and words of which every bit takes part in carries."""
    dice = np.random.default_rng(1)
    sequences = (*range(40), *map(int, dice.integers(0, 2**63, 40)), 2**63 - 1, 2**32 - 1, 2**32)
    for seed, index, purpose, tier in ((0, 0, 0, 0), (2**63 - 1, 2**31, 2, 8**9), (2**32, 7, 1, 1)):
        alone = np.stack([uniforms(seed, each, index, purpose, tier, count) for each in sequences])
        together = uniforms_of_streams(seed, sequences, index, purpose, tier, count)
        assert together.dtype == alone.dtype and np.array_equal(together, alone)


def test_a_large_batch_has_the_streams_of_its_sequences() -> None:
    large, index = tuple(range(7, 7 + 2 * MANY)), 3
    together, halves = Streams(5, large), [Streams(5, large[start : start + MANY // 2]) for start in (0, MANY // 2)]
    for name in ("draft", "accept", "last"):
        rows = getattr(together.uniforms(index, 6), name)
        assert torch.equal(rows[:MANY], torch.cat([getattr(half.uniforms(index, 6), name) for half in halves]))


def test_uniforms_are_uniform_and_uncorrelated_between_purposes_rounds_and_neighbours() -> None:
    """Kolmogorov-Smirnov and correlations over 40,000 draws; each comparison has a false-alarm rate of 1e-6."""
    uniforms = [Streams(9, tuple(range(100))).uniforms(r, 20) for r in range(21)]
    draft, accept = (torch.stack([getattr(c, name) for c in uniforms]) for name in ("draft", "accept"))
    now, after = accept[:20].flatten(), accept[1:].flatten()
    for values in (draft, accept):
        assert stats.kstest(values.flatten().numpy(), "uniform").pvalue > 1e-6
    pairs = [
        (draft[:20].flatten(), now),
        (now, after),
        (accept[:, :50].flatten(), accept[:, 50:].flatten()),
        (accept[..., ::2].flatten(), accept[..., 1::2].flatten()),
        ((now - 0.5).abs(), (after - 0.5).abs()),
        ((draft[:20].flatten() - 0.5).abs(), (now - 0.5).abs()),
    ]
    for first, second in pairs:
        assert stats.pearsonr(first.numpy(), second.numpy()).pvalue > 1e-6
