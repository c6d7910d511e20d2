"""Lines that servers write into their logs about speculation: vLLM's, SGLang's and llama.cpp's.

- vLLM, every ten seconds: `SpecDecoding metrics: Mean acceptance length: 2.77, ... Accepted: 626 tokens, Drafted: 1062
  tokens, Per-position acceptance rate: 0.802, 0.551, 0.415, ...`. Counts and shares since the line before; how many
  rounds there were follows from them.
- SGLang, every 40 steps: `Decode batch, #running-req: 18, ... accept len: 2.40, accept rate: 0.84, ... gen throughput
  (token/s): 2520.18`. Means only: nobody can tell of how many rounds.
- llama.cpp, after each request: `draft acceptance rate = 0.57576 (  171 accepted /   297 generated)`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from draftscope.log.entries import MAX_COUNT, Tally

NUMBER = r"(\d{1,15}(?:\.\d{1,9})?)"
LIST = r"(\d(?:\.\d{1,9})?(?:, \d(?:\.\d{1,9})?){0,63})"
VLLM = re.compile(
    rf"SpecDecoding metrics: Mean acceptance length: {NUMBER},.{{0,120}}?Accepted: {NUMBER} tokens, "
    rf"Drafted: {NUMBER} tokens, Per-position acceptance rate: {LIST}"
)
SGLANG = re.compile(rf"Decode batch.{{0,400}}?accept len: {NUMBER},(?:.{{0,80}}?accept rate: {NUMBER},)?")
LLAMA_CPP = re.compile(
    r"draft acceptance rate = \d\.\d{1,9} \(\s{0,9}(\d{1,15}) accepted /\s{0,9}(\d{1,15}) generated\)"
)
# With a year, as SGLang and most who collect logs write it, or without, as vLLM does.
TIME = re.compile(r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)|\b(\d\d-\d\d \d\d:\d\d:\d\d)")
ROUNDED = 0.006  # what a mean acceptance length may be off that is written with two decimals


@dataclass
class ServerWords:
    """Reads lines of a server's log one by one; times count from the first that has one."""

    source: str = ""
    begin: datetime | None = None

    def read(self, line: str) -> Tally | None:
        """What a line says about speculation; None if nothing."""
        for source, (mark, parsed) in LINES.items():
            said = parsed(line) if mark in line else None
            if said is not None:
                self.source = self.source or source
                return replace(said, at_ms=self._at(line))
        return None

    def _at(self, line: str) -> float | None:
        """Milliseconds since the first line. None without a time, or where the clock went back."""
        match = TIME.search(line[:200])
        if match is None:
            return None
        written = (match[1] or f"2000-{match[2]}").replace("T", " ")  # a leap year
        try:
            time = datetime.strptime(written, "%Y-%m-%d %H:%M:%S")
        except ValueError:
            return None
        self.begin = self.begin or time
        passed = (time - self.begin).total_seconds()
        return passed * 1000 if passed >= 0 else None


def _vllm(line: str) -> Tally | None:
    match = VLLM.search(line)
    if match is None:
        return None
    length, accepted, drafted = float(match[1]), int(float(match[2])), int(float(match[3]))
    shares = [float(share) for share in match[4].split(", ")]
    rounds = _rounds(length, accepted, drafted / len(shares))
    kept = None if rounds is None else tuple(_whole(share * rounds) for share in shares)
    emitted = None if rounds is None else round(rounds) + accepted
    known = rounds is not None or accepted == 0
    return Tally("since the line before", rounds, drafted, accepted, emitted, kept, length=None if known else length)


def _rounds(length: float, accepted: int, full: float) -> float | None:
    """How many rounds there were: `full` if all drafted as much as any, and that agrees with the mean; else by the
    mean, which is 1 + accepted / rounds. None where nothing was kept and the drafts may have been shorter."""
    if full and abs(1 + accepted / full - length) <= ROUNDED:
        return full
    return _whole(accepted / (length - 1)) if length > 1 and accepted else None


def _whole(count: float) -> float:
    """The count that a rounded share stands for, where it is near one."""
    return round(count) if abs(count - round(count)) < 0.3 else count


def _sglang(line: str) -> Tally | None:
    match = SGLANG.search(line)
    if match is None:
        return None
    return Tally("since the line before", length=float(match[1]), rate=float(match[2]) if match[2] else None)


def _llama_cpp(line: str) -> Tally | None:
    match = LLAMA_CPP.search(line)
    if match is None or int(match[1]) > int(match[2]) or int(match[2]) > MAX_COUNT:
        return None
    return Tally("a request", drafted=int(match[2]), accepted=int(match[1]))


LINES: Mapping[str, tuple[str, Callable[[str], Tally | None]]] = {  # what wrote it -> what such a line contains
    "vLLM's log": ("SpecDecoding metrics", _vllm),
    "SGLang's log": ("accept len", _sglang),
    "llama.cpp's log": ("draft acceptance rate", _llama_cpp),
}
