"""Cases of one test of which `make test` runs some: those that stand for the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def quick(cases: Iterable[Any], *chosen: Any) -> list[Any]:
    """The cases, for `parametrize`; all but those `chosen` are slow and left to `make test-all`. A tuple holds the
    values of several arguments."""
    cases = list(cases)
    assert all(case in cases for case in chosen)
    values = [case if isinstance(case, tuple) else (case,) for case in cases]
    slow = [() if case in chosen else pytest.mark.slow for case in cases]
    return [pytest.param(*value, marks=marks) for value, marks in zip(values, slow, strict=True)]
