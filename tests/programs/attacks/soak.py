"""A soak that anybody can repeat: visitors who press Run again and again, with memory at intervals.

Each draws drafter and settings from a seed; a sixth of the runs is cancelled by leaving in the middle. What must hold:
the memory of both processes is flat after the first tenth of the runs, every greedy text is plain's of the same run
except at a tie in 16 bit, and nobody ever gets an event of another one's run.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.programs.attacks.outcome import Outcome
from tests.programs.attacks.server import Server
from tests.programs.attacks.visitor import Visitor, client

CLIENTS, SEED, INTERVALS = 6, 1, 10
CANCELLED = 1 / 6
TIE = 0.1  # logits of a 16-bit model
MAX_GROWTH_MB = 60.0  # of each process, after the first tenth: caches of kernels and of tokens fill up
DRAFTERS = ("draft", "sampled-tree", "topk-tree", "ngram", "suffix", "lookahead", "early-exit", "eagle3-tree", "plain")
PROMPTS = ("Once upon a time", "def add(a, b):\n    return", "1 2 3 4 5 6 7", "To be, or not to be", "é€ \U0001f600 ")


@dataclass
class Tally:
    """What all clients have seen so far."""

    runs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    memory: list[tuple[int, float, float]] = field(default_factory=list)  # runs, page, engine


def drawn(dice: random.Random) -> dict[str, Any]:
    """The settings of one run."""
    settings: dict[str, Any] = {
        "prompt": dice.choice(PROMPTS),
        "drafter": dice.choice(DRAFTERS),
        "max_new_tokens": dice.choice((8, 16, 32, 64)),
        "temperature": dice.choice((0.0, 0.0, 0.5, 1.0, 1.5)),
        "seed": dice.randrange(2**31),
        "gamma": dice.randint(1, 8),
    }
    return settings | ({"top_k": dice.choice((0, 5, 50))} if dice.random() < 0.5 else {})


async def one(
    client: httpx.AsyncClient, config: dict[str, Any], settings: dict[str, Any], leaves: bool
) -> tuple[str, str]:
    """What came of a run, and what was wrong with it."""
    visitor = Visitor(client, config, **settings)
    ends: dict[str, dict[str, Any]] = {}
    runs: set[str] = set()
    leads: list[float] = []  # of the plain lane's tokens: top-1 minus top-2 logit
    rounds = 0
    events = visitor.events()
    async for event in events:
        runs.add(event["run"])
        if event["kind"] == "run_start" and event["prompt"] != settings["prompt"]:
            return "whole", f"the prompt of another client: {event['prompt']!r}"
        if event["kind"] == "run_end":
            ends[event["lane"]] = event
        if event["kind"] == "round":
            rounds += 1
            if settings["temperature"] == 0.0 and event["lane"] == "plain":
                leads.append(event["last"]["gap"])
            if leaves and rounds >= 2:
                await events.aclose()  # type: ignore[attr-defined]
                return "left", ""
    if len(runs) != 1:
        return "whole", f"events of {len(runs)} runs"
    lanes = {"plain"} if settings["drafter"] == "plain" else {"plain", "speculative"}
    if ends.keys() != lanes or any(end["reason"] not in ("length", "eos") for end in ends.values()):
        return "whole", f"lanes that ended: { ({lane: end['reason'] for lane, end in ends.items()}) }"
    if settings["temperature"] > 0 or len(lanes) == 1:
        return "whole", ""
    plain, other = (ends[lane]["token_ids"] for lane in ("plain", "speculative"))
    if plain == other:
        return "whole", ""
    pairs = enumerate(zip(plain, other, strict=False))
    parted = next((i for i, (a, b) in pairs if a != b), min(len(plain), len(other)))
    tied = parted < len(leads) and leads[parted] < TIE
    return ("tied", "") if tied else ("whole", f"a greedy text is not plain's from token {parted} on")


async def client_of(number: int, server: Server, tally: Tally, until: float) -> None:
    dice = random.Random(SEED * 1000 + number)
    async with client(server.url) as opened:
        config = server.config()
        while time.monotonic() < until:
            tally.runs += 1
            count, settings = tally.runs, drawn(dice)
            try:
                outcome, wrong = await one(opened, config, settings, dice.random() < CANCELLED)
            except RuntimeError as error:  # a sentence of the server
                outcome, wrong = "refused", str(error)
            tally.outcomes[outcome] += 1
            if wrong:
                tally.wrong.append(f"{wrong} ({settings})")
            tally.memory.append((count, *server.memory_mb()))


def grown(memory: list[tuple[int, float, float]]) -> tuple[float, float]:
    """By how many MB each process has grown since a tenth of the runs: medians of the second tenth and of the last."""

    def middle(rows: list[tuple[int, float, float]], column: int) -> float:
        sizes = sorted(row[column] for row in rows)
        return sizes[len(sizes) // 2]

    tenth = max(len(memory) // 10, 1)
    first, last = memory[tenth : 2 * tenth] or memory, memory[-tenth:]
    return middle(last, 1) - middle(first, 1), middle(last, 2) - middle(first, 2)


def attack(server: Server, minutes: float) -> Outcome:
    """For so many minutes; prints the memory ten times."""
    tally = asyncio.run(_soaked(server, minutes))
    page, engine = grown(tally.memory)
    for wrong in tally.wrong:
        print(f"WRONG: {wrong}")
    outcomes = ", ".join(f"{count} {name}" for name, count in sorted(tally.outcomes.items()))
    found = (
        f"{outcomes}; page {page:+.0f} MB and engine {engine:+.0f} MB after the first tenth; {len(tally.wrong)} wrong"
    )
    return Outcome(
        f"{minutes:g} minutes of {CLIENTS} visitors", not tally.wrong and max(page, engine) < MAX_GROWTH_MB, found
    )


async def _soaked(server: Server, minutes: float) -> Tally:
    tally, until = Tally(), time.monotonic() + 60 * minutes
    everybody = [asyncio.create_task(client_of(number, server, tally, until)) for number in range(CLIENTS)]
    for interval in range(INTERVALS):
        await asyncio.sleep(max(until - time.monotonic(), 0.0) / (INTERVALS - interval))
        page, engine = server.memory_mb()
        print(f"soak, {tally.runs} runs: page {page:.0f} MB, engine {engine:.0f} MB", flush=True)
    await asyncio.gather(*everybody)
    return tally
