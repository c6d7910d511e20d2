"""A chart of results as plain values: what `claims --save` writes and a page draws. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """Points of one series; `low` and `high` are as long as `y`, or empty where there is no interval."""

    name: str
    x: Sequence[float | str]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    modelled: bool = False  # not run
    text: Sequence[str] = ()  # more about each point


@dataclass(frozen=True)
class Chart:
    """`note` says in a sentence what is shown, and what its intervals are."""

    x: str
    y: str
    note: str
    lines: Sequence[Line]
    ratio: bool = False  # y is over plain decoding, which is 1
    log_x: bool = False
    log_y: bool = False
    joined: bool = True  # points of a series belong to one curve
