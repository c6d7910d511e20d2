"""Writes a log of rounds, one line of JSON a round. One file without dependencies: copy it into any engine.

    log = RoundLog("rounds.jsonl", engine="mine 1.2", target="Qwen3-8B", drafter="eagle3", temperature=0.7)
    log.round(draft=[311, 9, 42], accepted=2, tokens=[311, 9, 77], ms=21.4, request="a", position=128)
    log.round(drafted=3, accepted=0)  # all that must be known

The format is described in README.md and schema.json beside this file, and by `draftscope rounds --help`.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class RoundLog:
    """A log at `path`, which is added to if it exists. Every line is written at once, by any number of threads.

    `facts` say what ran, in any words; readers know `engine`, `target`, `drafter`, `temperature` and `gamma`.
    """

    def __init__(self, path: str | Path, **facts: Any) -> None:
        self._file = Path(path).open("a", encoding="utf-8")  # noqa: SIM115 - until `close`
        self._lock = threading.Lock()
        self._rounds: dict[str, int] = {}  # by request
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._write({"draftscope_log": 1, "created": created} | _known(facts))

    def round(
        self,
        *,
        accepted: int,
        drafted: int | None = None,
        draft: Sequence[int] | None = None,
        tokens: Sequence[int] | None = None,
        request: str = "",
        **more: Any,
    ) -> None:
        """One round: `accepted` of `drafted` tokens were kept. What the engine does not know is left out.

        draft: ids of the drafted tokens, in the order of their depth; then `drafted` need not be given. tokens: ids of
        the tokens that the round added to the text, with the target's own. request: which text it is about. more:
        emitted, position, at_ms, ms, draft_ms, verify_ms, parents, p, q, u, text, ended; README.md says what they are.
        Raises `ValueError` for a round that cannot be, such as one that kept more tokens than it drafted.
        """
        drafted = len(draft) if drafted is None and draft is not None else drafted
        if drafted is None:
            raise ValueError("A round without `drafted` and without `draft`: say how many tokens were drafted.")
        if not 0 <= accepted <= drafted:
            raise ValueError(f"accepted = {accepted} of {drafted} drafted tokens: give 0 to {drafted}.")
        with self._lock:
            number = self._rounds.get(request, 0)
            self._rounds[request] = number + 1
            head = {"request": request} if request else {}
            counts = {"round": number, "drafted": drafted, "accepted": accepted}
            self._write(head | counts | _known({"draft": draft, "tokens": tokens, **more}))

    def close(self) -> None:
        """Closes the file; nothing is written after it."""
        self._file.close()

    def __enter__(self) -> RoundLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line, default=_plain, allow_nan=False, separators=(",", ":")) + "\n")
        self._file.flush()


def _known(values: dict[str, Any]) -> dict[str, Any]:
    """Those that are known: a value of None is left out, and of a list NaN is written as null."""
    return {name: _finite(value) for name, value in values.items() if value is not None}


def _finite(value: Any) -> Any:
    value = value.tolist() if hasattr(value, "tolist") else value  # of an array or a tensor
    if isinstance(value, (list, tuple)):
        return [None if isinstance(item, float) and not math.isfinite(item) else item for item in value]
    return value


def _plain(value: Any) -> Any:
    """What JSON can hold of a number or an array of another library."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
