"""How busy the machine is with other work, since costs measured then are not its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from draftscope.base.cores import Company

SPREAD = 0.35  # interquartile range over the median of plain's rounds before it is said
CHANGED = 1.35  # plain's round now against the calibration's, either way


def spread(round_ms: Sequence[float]) -> float:
    """The interquartile range of round times over their median."""
    low, middle, high = np.quantile(round_ms, [0.25, 0.5, 0.75])
    return float((high - low) / middle)


def sentences(company: Company, plain_ms: Sequence[float], calibrated_ms: float) -> list[str]:
    """What makes the costs uncertain, if anything: other processes, uneven rounds, an old calibration."""
    lines = []
    if company.disturbs or spread(plain_ms) > SPREAD:
        lines.append(
            f"This machine is noisy: {company}, and the middle half of plain's rounds differ by "
            f"{spread(plain_ms):.0%}. Only ratios within the same repeat are reliable; stop other work and ask again."
        )
    now = float(np.median(plain_ms))
    if not 1 / CHANGED < now / calibrated_ms < CHANGED:
        lines.append(
            f"A round of plain decoding takes {now:.2f} ms, and took {calibrated_ms:.2f} ms when this pair was "
            "calibrated. Costs are scaled to what is measured now; 'draftscope calibrate --again' measures them anew."
        )
    return lines
