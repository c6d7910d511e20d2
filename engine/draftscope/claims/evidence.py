"""The results that claims are judged by: files that `draftscope bench`, `regret` and `advise` wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftscope.base.errors import DraftscopeError

RowJson = Mapping[str, Any]


@dataclass(frozen=True)
class Evidence:
    """What was found in files; None for a file that was not given."""

    bench: RowJson | None = None
    regret: RowJson | None = None
    advice: RowJson | None = None

    @property
    def rows(self) -> Sequence[RowJson]:
        """Our own drafters' rows of the benchmark, plain left out."""
        every: Sequence[RowJson] = self.bench["rows"] if self.bench else ()
        return [row for row in every if row["system"] == "draftscope" and row["drafter"] != "plain"]

    @property
    def machine(self) -> RowJson:
        """Of the first file that names one."""
        found = next((file for file in (self.bench, self.regret, self.advice) if file), None)
        return found["machine"] if found else {}


def read(path: Path, field: str) -> RowJson:
    """A file of one JSON object that has `field`. Raises `DraftscopeError` for another one."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DraftscopeError(f"The results '{path}' cannot be read ({reason}); check the path.") from None
    except ValueError:
        found = None
    if not isinstance(found, dict) or field not in found:
        raise DraftscopeError(f"The results '{path}' are no JSON object with '{field}'; give the file of that command.")
    return found
