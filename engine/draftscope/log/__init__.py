"""A log of rounds that any engine can write: one line of JSON a round.

`RoundLog` writes it and needs nothing but Python: `writer.py` may be copied into another program as it is. `read` (of
`draftscope.log.read`) reads it, and what engines and benchmarks write already. README.md describes the format.
"""

from draftscope.log.writer import RoundLog

__all__ = ["RoundLog"]
