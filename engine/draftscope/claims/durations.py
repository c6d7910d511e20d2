"""How long the commands of the claims take, which the page says before it starts one.

Seconds on two idle cores, with the start of Python: measured on 2026-11-23 with the embedded models. Where a claim's
command is changed, measure it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from draftscope.claims.table import CLAIMS

BY_CLAIM: Mapping[int, int] = {3: 285, 7: 60, 8: 20, 11: 35, 14: 30, 16: 20, 18: 160, 19: 50, 20: 75, 21: 40}
SECONDS = {CLAIMS[number - 1].command: seconds for number, seconds in BY_CLAIM.items()}


def expected(commands: Iterable[str]) -> int:
    """Seconds for all of them, one after the other. Raises `KeyError` for a command that was not measured."""
    return sum(SECONDS[command] for command in commands)
