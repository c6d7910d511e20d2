"""What the recorder inside vLLM costs: `python -m tests.programs.inside_cost --vllm build/vllm/bin/vllm`.

Two servers with the embedded pair run all the time: one does not load the plugin, the other does. Each repeat asks the
second one for the same texts in three ways (nothing recorded, one request of them, all of them), each beside
the first one in a pair, whose order turns. A ratio is of a pair's tokens per second; its interval is that of the mean.
Both servers have #55005 mended (tests/inside/mended), so that there is a p to record. They share the last core, and
this program keeps to the others: threads of a server that wait for each other on a busy core would be all that one
measures. Run it on an idle machine.
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

import numpy as np
from scipy import stats

from draftscope.base import markdown
from draftscope.servers.adapter import Request, Server
from draftscope.servers.audit.prompts import AUDIT_PROMPTS
from draftscope.servers.inside.recorder import read_state
from draftscope.servers.programs.program import Command
from draftscope.servers.wire import Wire
from tests.programs.inside import PORT, command
from tests.programs.interop import started

WAYS = ("nothing", "one request", "all requests")
CONFIDENCE = 0.95
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


def table(pairs: Sequence[Pair], points: Sequence[int]) -> str:
    rows = []
    for at_once, way in product(points, WAYS):
        chosen = [pair for pair in pairs if (pair.way, pair.at_once) == (way, at_once)]
        if chosen:
            medians = (f"{median(pair.bare for pair in chosen):.1f}", f"{median(pair.loaded for pair in chosen):.1f}")
            rows.append((str(at_once), way, *medians, change(chosen)))
    return markdown.table(("at once", "recorded", "tokens/s without the plugin", "with it", "change"), rows)


def change(pairs: Sequence[Pair]) -> str:
    """Percent of tokens per second, with the interval of the mean; one pair has none."""
    logs = np.log([pair.loaded / pair.bare for pair in pairs])
    if len(logs) < 2:
        return f"{100 * np.expm1(logs.mean()):+.1f} %"
    wide = stats.t.ppf((1 + CONFIDENCE) / 2, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
    low, middle, high = 100 * np.expm1(logs.mean() + np.array([-wide, 0.0, wide]))
    return f"{middle:+.1f} % ({low:+.1f} to {high:+.1f})"


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.programs.inside_cost", description=__doc__)
    parser.add_argument("--vllm", type=Path, required=True, help="the program, of an environment with draftscope-vllm")
    parser.add_argument("--at-once", default="1,4,16", help="requests at once")
    parser.add_argument("--tokens", type=int, default=192, help="of each text")
    parser.add_argument("--repeats", type=int, default=12)
    options = parser.parse_args(given)
    points = [int(each) for each in options.at_once.split(",")]
    with ExitStack() as opened:
        servers = [
            opened.enter_context(
                started(TASKSET, pinned(options.vllm, plugins, PORT + number, max(points)), ("--enforce-eager",))
            )
            for number, plugins in enumerate(("vllm_55005", "draftscope,vllm_55005"))
        ]
        os.sched_setaffinity(0, (cores := os.sched_getaffinity(0)) - {max(cores)} or cores)
        print(table(measure(servers, points, options.tokens, options.repeats), points))
        wire = Wire(servers[1].identity.url)
        print(f"\nSteps that the recorder had no time for: {read_state(wire).lost}.")
        wire.close()


if __name__ == "__main__":
    main()
