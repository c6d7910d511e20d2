"""The acceptance rate behind a number of tokens a round. Imports no torch."""

from __future__ import annotations


def alpha_of(tau: float, gamma: int) -> float:
    """The acceptance rate a with 1 + a + .. + a^gamma = tau, the same at every position; above 1 if tau > gamma + 1."""

    from scipy.optimize import brentq  # not at the top: it takes longer to import than this module

    def over(rate: float) -> float:
        return sum(rate**power for power in range(gamma + 1)) - tau

    return 0.0 if tau <= 1 else float(brentq(over, 0.0, max(2.0, tau)))
