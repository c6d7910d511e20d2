"""What an inference engine adds to its kernels: launches, its own work at each step, and how it splits a model."""

from __future__ import annotations

from dataclasses import dataclass

from draftscope.forecast.tables import pick_row


@dataclass(frozen=True)
class EngineCosts:
    """Milliseconds beside the kernels. Servers draft chains where nothing else is said, the papers' own code trees."""

    name: str
    trees: bool
    by_tensor: bool  # several cards share each layer; otherwise each has some of the layers
    layer_ms: float  # launches of a layer, or the gaps between its kernels in a graph
    step_ms: float  # at each forward of the target
    sequence_ms: float  # the same for each sequence; twice that in a round of speculation
    draft_ms: float  # at each forward of the drafter
    round_ms: float  # at each round of speculation


def find_engine(name: str) -> EngineCosts:
    """The row of the table that fits a name such as 'vLLM 0.27.1'; what no row names is 'other'."""
    row = pick_row("engines", name or "other")
    assert row is not None, "the last row fits every name"
    times = (float(row[key]) for key in ("layer_ms", "step_ms", "sequence_ms", "draft_ms", "round_ms"))
    return EngineCosts(row["name"], row["trees"] == "1", row["split"] == "tensor", *times)
