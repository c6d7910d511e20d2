"""What every starter file has: to draw a token with one random number, and top-p. Written to be copied."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def draw(weights: Sequence[float], rng: Callable[[], float]) -> int:
    """A token drawn with one random number; the weights must sum to 1."""
    u, total = rng(), 0.0
    for token, weight in enumerate(weights):
        total += weight
        if u < total:
            return token
    return len(weights) - 1


def keep_top(weights: Sequence[float], top_p: float) -> list[float]:
    """The most probable tokens that reach `top_p` together, renormalised; all others get 0."""
    order = sorted(range(len(weights)), key=lambda token: -weights[token])
    kept: list[int] = []
    while sum(weights[token] for token in kept) < top_p - 1e-9:
        kept.append(order[len(kept)])
    total = sum(weights[token] for token in kept)
    return [weight / total if token in kept else 0.0 for token, weight in enumerate(weights)]
