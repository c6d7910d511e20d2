"""JSON as others read it: UTF-8, texts of whole characters, finite numbers, and integers of 64 bits.

Python reads more than that, and so do Gradio and FastAPI: NaN, half characters, UTF-16 and numbers of 4,000 digits.
What they make of it cannot be written into an answer, or fails where a number is worked with.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic_core import from_json

from draftscope.base.errors import DraftscopeError, quoted

LARGEST = 2**63
BETWEEN = "The request has the number {}; send one between -2^63 and 2^63."
NOT_STRICT = "The request is not JSON as the standard has it; write UTF-8, finite numbers, and no half characters."


def refuse_loose(body: bytes | bytearray) -> None:
    """Raises `DraftscopeError` for a body that Python would read as JSON and nobody else. A body that is no JSON at all
    passes: whoever reads it says what it should be."""
    try:
        read = from_json(bytes(body), allow_inf_nan=False)
    except ValueError:
        if _python_reads(body):
            raise DraftscopeError(NOT_STRICT) from None
        return
    for number in _numbers(read) if isinstance(read, dict | list) else ():  # a bare token may be of digits alone
        if not -LARGEST <= number < LARGEST:  # nor is infinity
            raise DraftscopeError(BETWEEN.format(quoted(number)))


def _python_reads(body: bytes | bytearray) -> bool:
    if b"\0" in body:  # UTF-16 or UTF-32, whose values nobody has counted
        return True
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


def _numbers(value: Any) -> Iterator[int | float]:
    """All of those in a value, at whatever depth."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
        elif isinstance(one, int | float):
            yield one
