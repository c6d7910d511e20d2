"""What a loaded model can do in this engine: found by `probe` and passed to `Model`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Capabilities:
    """What a model was found to support.

    `trees`: draft trees, and batches of sequences with different lengths. A model without it makes its own masks and
    verifies chains, one sequence at a time.
    """

    trees: bool
    row_by_row: bool = False  # its layers with a state can continue that state only by single rows
    state_bytes: int = 0  # of one sequence's states, if some layers keep one
