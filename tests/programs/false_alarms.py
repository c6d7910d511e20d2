"""`python -m tests.programs.false_alarms`: no check of a right engine may find a difference, on the shipped pair.

Every drafter twice, each time with other prompts and another seed, in the pair's default dtype. Each test of the
distribution is allowed one false alarm in a million. Takes about half an hour; prints a line for each check.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from pathlib import Path

from draftscope import load
from draftscope.base.prompts import shipped
from draftscope.decode.engine import DecodingEngine
from draftscope.measure import check as checks

STARTS = (
    "Once upon a time", "The king said", "def add(a, b):\n    ", "Question: What is 3 + 9?\nAnswer:", "In the year",
    "Anna: How are you?\nBen:", "It was raining when", "class Tree:\n    ", "To be or not", "- apples: 3\n- pears:",
    "name,age\nTom,31\n", "He opened the door and", "My dear friend,", "import os\n", "Q: Who wrote Hamlet?\nA:",
)  # fmt: skip
PROMPTS = 4  # of a check


def prompts_of(dice: random.Random, words: list[str]) -> list[str]:
    """Beginnings that the models know, each followed by a few words that do not fit."""

    def cut() -> str:
        start, count = dice.randrange(len(words) - 15), dice.randrange(1, 14)
        return " ".join(words[start : start + count])

    return [f"{dice.choice(STARTS)} {cut()}" for _ in range(PROMPTS)]


def one(engine: DecodingEngine, drafter: str, samples: int, seed: int, words: list[str]) -> dict[str, object]:
    """What one check said."""
    began = time.monotonic()
    found = list(checks.check(engine, drafter, samples, seed, prompts=prompts_of(random.Random(seed), words)))
    wrong = [f"{each.name}: {each.detail}" for each in found if not each.passed]
    return {
        "seed": seed,
        "drafter": drafter,
        "findings": len(found),
        "ties": sum(each.ties for each in found),
        "wrong": wrong,
        "seconds": round(time.monotonic() - began, 1),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--times", type=int, default=2, help="checks of each drafter")
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="the first check that is made")
    parser.add_argument("--out", type=Path, help="also write each result to this file, as a line of JSON")
    asked = parser.parse_args(arguments)
    rows = []
    with load(threads=1) as engine:
        print(f"{engine.target.name}, {engine.target.dtype}, load {os.getloadavg()[0]:.1f}", flush=True)
        names = [each.name for each in engine.drafters() if each.available]
        words = " ".join(prompt.text for prompt in shipped()).split()
        for seed in range(asked.first, asked.times * len(names)):
            rows.append(one(engine, names[seed % len(names)], asked.samples, seed, words))
            print(json.dumps(rows[-1]), flush=True)
            if asked.out is not None:
                with asked.out.open("a") as lines:
                    lines.write(json.dumps(rows[-1]) + "\n")
    wrong = sum(bool(row["wrong"]) for row in rows)
    print(f"{len(rows)} checks of {len(names)} drafters, {wrong} false alarms; load {os.getloadavg()[0]:.1f}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
