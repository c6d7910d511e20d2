"""What a loaded model can do in this engine: found by `probe`, handed to `Model`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Capabilities:
    """What a model was found to take.

    `trees`: draft trees, and batches whose sequences grow unequally. A model without makes its own masks: it verifies
    chains, one sequence at a time.
    """

    trees: bool
    row_by_row: bool = False  # its layers with a state continue that state by single rows only
    state_bytes: int = 0  # of one sequence's states, where some layers keep one
