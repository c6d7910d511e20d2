"""What the recorder inside vLLM costs: `python -m tests.programs.inside_cost --vllm build/vllm/bin/vllm`.

Two servers with the embedded pair run all the time: one does not load the plugin, the other does. Each repeat asks the
second one for the same texts in three ways (nothing recorded, one request of them, all of them), each beside
the first one in a pair, whose order turns. A ratio is of a pair's tokens per second; the interval is of their median.
Both servers have #55005 mended (tests/doors/servers/inside/mended), so that there is a p to record. They share the last
core, and this program keeps to the others: threads of a server that wait for each other on a busy core would be all
that one measures. Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import cycle, islice, product
from pathlib import Path
from statistics import median
from uuid import uuid4

from draftscope.base import markdown
from draftscope.measure.bench.statistics import LEVEL, bootstrap
from draftscope.servers.adapter import Request, Server
from draftscope.servers.audit.plan import AUDIT_PROMPTS
from draftscope.servers.inside.recording import read_state
from draftscope.servers.programs.program import Command
from draftscope.servers.wire import Wire
from tests.doors.servers.inside.vllm_cpu import MENDED_TOO, PORT, command
from tests.programs.interop import started

WAYS = ("nothing", "one request", "all requests")
POINTS = (1, 4, 16)  # requests at once
TASKSET = Path("taskset")


@dataclass(frozen=True)
class Pair:
    """Tokens per second of both servers, one right after the other."""

    way: str
    at_once: int
    loaded: float
    bare: float


def tokens_per_s(server: Server, way: str, at_once: int, tokens: int) -> float:
    """`at_once` requests that begin together, until the last one ends."""
    recorded = (0, 1, at_once)[WAYS.index(way)]
    requests = [
        Request(
            server.tokenize(text), tokens, seed=number, temperature=1.0, ignore_eos=True,
            name=f"draftscope-{uuid4().hex}" if number < recorded else "",
        )
        for number, text in enumerate(islice(cycle(AUDIT_PROMPTS), at_once))
    ]  # fmt: skip
    began = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        written = sum(pool.map(lambda request: sum(len(chunk.ids) for chunk in server.stream(request)), requests))
    return written / (time.perf_counter() - began)


def pinned(vllm: Path, plugins: str, port: int, requests: int) -> Command:
    """Starts a server with these plugins on the last core."""
    start = command(plugins, port, requests)
    last = str(max(os.sched_getaffinity(0)))
    return replace(start, arguments=("", "-c", last, str(vllm.absolute()), *start.arguments[1:]))


def measure(servers: Sequence[Server], points: Sequence[int], tokens: int, repeats: int) -> list[Pair]:
    """The first server does not load the plugin. One repeat more than asked for comes first and is not counted."""
    pairs = []
    for repeat, at_once, way in product(range(-1, repeats), points, WAYS):
        order = (0, 1) if repeat % 2 else (1, 0)
        # Nothing of the first server's can be recorded, however its requests are named.
        speeds = {number: tokens_per_s(servers[number], way, at_once, tokens) for number in order}
        if repeat >= 0:
            pairs.append(Pair(way, at_once, loaded=speeds[1], bare=speeds[0]))
    return pairs


def compared(vllm: Path, tokens: int, repeats: int, points: Sequence[int] = POINTS) -> tuple[list[Pair], int]:
    """All pairs, and the steps that the recorder had no time for."""
    mine = os.sched_getaffinity(0)
    with ExitStack() as opened:
        servers = [
            opened.enter_context(
                started(TASKSET, pinned(vllm, plugins, PORT + number, max(points)), ("--enforce-eager",))
            )
            for number, plugins in enumerate(("vllm_55005", MENDED_TOO))
        ]
        opened.callback(os.sched_setaffinity, 0, mine)
        os.sched_setaffinity(0, mine - {max(mine)} or mine)
        pairs = measure(servers, points, tokens, repeats)
        return pairs, read_state(Wire(servers[1].identity.url)).lost


def grouped(pairs: Sequence[Pair]) -> dict[tuple[int, str], list[Pair]]:
    """By requests at once, and which of them are recorded."""
    groups: dict[tuple[int, str], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault((pair.at_once, pair.way), []).append(pair)
    return groups


def table(pairs: Sequence[Pair]) -> str:
    rows = []
    for (at_once, way), chosen in grouped(pairs).items():
        medians = (f"{median(pair.bare for pair in chosen):.1f}", f"{median(pair.loaded for pair in chosen):.1f}")
        rows.append((str(at_once), way, *medians, change(chosen)))
    return markdown.table(("at once", "recorded", "tokens/s without the plugin", "with it", "change"), rows)


def divided(pairs: Sequence[Pair], lost: int) -> str:
    """What the change is."""
    count = len(next(iter(grouped(pairs).values())))
    return (
        "Cost: tokens per second with the plugin, divided by those of a server without it that was asked for the same "
        f"right before or after; the median of {count} such pairs and its {LEVEL:.0%} bootstrap interval. "
        f"Steps that the recorder had no time for: {lost}."
    )


def change(pairs: Sequence[Pair]) -> str:
    """Percent of tokens per second, with the interval of the median."""
    ratio = bootstrap([[pair.loaded / pair.bare for pair in pairs]])
    middle, low, high = (100 * (value - 1) for value in (ratio.median, ratio.low, ratio.high))
    return f"{middle:+.1f} % ({low:+.1f} to {high:+.1f})"


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.programs.inside_cost", description=__doc__)
    parser.add_argument("--vllm", type=Path, required=True, help="the program, of an environment with draftscope-vllm")
    parser.add_argument("--at-once", default=",".join(map(str, POINTS)), help="requests at once")
    parser.add_argument("--tokens", type=int, default=192, help="of each text")
    parser.add_argument("--repeats", type=int, default=12)
    options = parser.parse_args(given)
    points = [int(each) for each in options.at_once.split(",")]
    pairs, lost = compared(options.vllm, options.tokens, options.repeats, points)
    print(f"{table(pairs)}\n\n{divided(pairs, lost)}")


if __name__ == "__main__":
    main()
