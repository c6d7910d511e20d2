"""What an attack tells."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """`tried`: what was done, with its numbers. `held`: nothing of it succeeded. `found`: what came of it."""

    tried: str
    held: bool
    found: str
