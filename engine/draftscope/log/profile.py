"""`speculation_profile.json`, version 1.0: acceptance as NVIDIA's Model-Optimizer publishes it beside a draft.

Both conventions are in it: the share of all rounds that kept a position (what vLLM's synthetic rejection reads), and
the share given that all before it were kept (what Dynamo's simulator reads). Lengths count the target's own token.
The format is that of examples/specdec_bench/specdec_bench/speculation_profile.py in github.com/NVIDIA/Model-Optimizer.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from draftscope.base.errors import DraftscopeError
from draftscope.log.entries import RoundsRead
from draftscope.log.log_summary import RoundsSummary

CHAINS = ("eagle", "eagle1", "eagle2", "eagle3", "draft_model")  # of which a shorter draft is the beginning of a longer
TOLERANCE = 0.02


def profile(log: RoundsRead, summary: RoundsSummary) -> dict[str, Any]:
    """The content of the file. Raises `DraftscopeError` for a log without acceptance by position.

    What the log does not say is null in it; `measurement_conditions` repeats what it says about itself.
    """
    if summary.positions is None or summary.histogram is None or summary.tokens_per_round is None:
        raise DraftscopeError(
            f"A profile needs acceptance by position, which {log.source} does not have; give another."
        )
    facts = dict(log.facts)
    marginal = [round(item.share, 6) for item in summary.positions]
    conditional = [kept / before if before else 0.0 for before, kept in pairwise([1.0, *marginal])]
    length, method = round(summary.tokens_per_round, 6), facts.get("drafter")
    by_request = summary.tokens_per_round_by_request
    return {
        "schema_version": "1.0",
        "measured": True,
        "method": method,
        "draft_checkpoint": None,
        "target_model": facts.get("target"),
        "num_speculative_tokens": len(marginal),
        "block_size": None,
        "max_supported_k": len(marginal),
        "verification_method": "longest_prefix",
        "conditional_accept_rates": [round(rate, 6) for rate in conditional],
        "marginal_accept_rates": marginal,
        "mean_accept_length": length,
        "mean_accept_length_per_request": None if by_request is None else round(by_request, 6),
        "accept_length_model": "chain_analytic" if (method or "").lower() in CHAINS else "measured_per_k",
        "accept_length_by_k": {str(len(marginal)): length},
        "acceptance_length_histogram": {str(kept + 1): count for kept, count in enumerate(summary.histogram)},
        "per_category": None,
        "measurement_conditions": {"source": log.source, **facts},
        "validation": _validation(marginal, length),
    }


def _validation(marginal: list[float], length: float) -> dict[str, Any]:
    implied = round(1 + sum(marginal), 6)
    off = round(abs(implied - length), 6)
    mean = {"implied_mean_accept_length": implied, "reported_mean_accept_length": length, "abs_delta": off}
    rising = [
        {"position": place + 1, "value": after, "previous": before}
        for place, (before, after) in enumerate(pairwise(marginal))
        if after > before + 1e-9
    ]
    return {
        "mean_consistency": mean | {"tolerance": TOLERANCE, "passed": off <= TOLERANCE},
        "marginal_monotonicity": {"passed": not rising, "violations": rising},
    }
