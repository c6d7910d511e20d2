"""A stand-in for `draftscope.models.beforehand_child`: says what that says, and compiles nothing."""

from __future__ import annotations

import time

from draftscope.models.beforehand import FUNCTION, PART

print(3 * FUNCTION, end="", flush=True)
time.sleep(0.5)
print(PART, end="", flush=True)
