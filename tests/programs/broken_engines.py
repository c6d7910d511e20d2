"""`python -m tests.programs.broken_engines`: what `draftscope check` says about broken engines, on the shipped pair.

Every mutation, with every drafter for which it makes sense, in the pair's default dtype. A check stops at the first
finding that is red, since it has then seen the mutation. Takes an hour or two; prints a line for each engine.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from draftscope import load
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.measure import check as checks
from draftscope.measure.findings import Finding
from tests.support.mutations import MUTATIONS, Mutation


@dataclass(frozen=True)
class Row:
    """One broken engine; `found` is the finding that was red, None if the check passed."""

    mutation: str
    drafter: str
    samples: int
    found: Finding | None

    def __str__(self) -> str:
        said = "NOT SEEN" if self.found is None else f"{self.found.name}: {self.found.detail}"
        return f"{self.mutation}, {self.drafter}, {self.samples} samples: {said}"


def seen(engine: DecodingEngine, mutation: Mutation, drafter: str, samples: int, seed: int) -> Row:
    """The first red finding of a check of the broken engine."""
    like = Settings.of(draft_length=mutation.draft_length)
    with pytest.MonkeyPatch.context() as patch:
        mutation.apply(patch)
        findings = checks.check(engine, drafter, samples, seed, like=like)
        found = next((each for each in findings if not each.passed), None)
    return Row(mutation.title, drafter, samples, found)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--samples", type=int, default=2048)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--drafter", action="append", help="only these drafters")
    parser.add_argument("--mutation", default="", help="only those with these words in their title")
    parser.add_argument("--out", type=Path, help="also write each result to this file, as a line of JSON")
    asked = parser.parse_args(arguments)
    rows = []
    with load(threads=1) as engine:
        print(f"{engine.target.name}, {engine.target.dtype}, load {os.getloadavg()[0]:.1f}", flush=True)
        there = {each.name for each in engine.drafters() if each.available}
        for mutation in (each for each in MUTATIONS if asked.mutation in each.title):
            for drafter in mutation.drafters:
                if drafter not in there or (asked.drafter and drafter not in asked.drafter):
                    continue
                rows.append(seen(engine, mutation, drafter, asked.samples, asked.seed))
                print(rows[-1], flush=True)
                if asked.out is not None:
                    with asked.out.open("a") as lines:
                        found = rows[-1].found and rows[-1].found.__dict__
                        lines.write(json.dumps(rows[-1].__dict__ | {"found": found}) + "\n")
    missed = sum(row.found is None for row in rows)
    print(f"{len(rows)} broken engines, {missed} not seen; load {os.getloadavg()[0]:.1f}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
