"""What the recorder inside vLLM costs: `python -m tests.programs.inside_cost --vllm build/vllm/bin/vllm`.

Two servers with the embedded pair run all the time: one does not load the plugin, the other does. Each repeat asks for
the same texts in four ways, in a turning order: without the plugin, with it and nothing recorded, one request of them
recorded, all of them. A ratio is of the same repeat's tokens per second; its interval is that of the mean over repeats.
Both servers have #55005 mended (tests/inside/mended), so that there is a p to record. Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from uuid import uuid4

import numpy as np
from scipy import stats

from draftscope.base import markdown
from draftscope.servers.adapter import Request, Server
from draftscope.servers.audit.prompts import AUDIT_PROMPTS
from draftscope.servers.inside.asked import read_state
from draftscope.servers.wire import Wire
from tests.programs.inside import PORT, command
from tests.programs.interop import started

WAYS = ("not loaded", "loaded, nothing recorded", "one request recorded", "all requests recorded")
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Timed:
    """One way at one concurrency in one repeat."""

    way: str
    at_once: int
    tokens_per_s: float


def timed(server: Server, way: str, at_once: int, tokens: int) -> Timed:
    """`at_once` requests that begin together, until the last one ends."""
    recorded = {"one request recorded": 1, "all requests recorded": at_once}.get(way, 0)
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
    return Timed(way, at_once, written / (time.perf_counter() - began))


def measure(servers: Sequence[Server], points: Sequence[int], tokens: int, repeats: int) -> list[Timed]:
    """The first server does not load the plugin. One repeat more than asked for comes first and is not counted."""
    found = []
    for repeat in range(-1, repeats):
        turned = [WAYS[(place + repeat) % len(WAYS)] for place in range(len(WAYS))]
        one = [timed(servers[way != WAYS[0]], way, at_once, tokens) for at_once in points for way in turned]
        found += one if repeat >= 0 else []
    return found


def table(found: Sequence[Timed], points: Sequence[int]) -> str:
    rows = []
    for at_once in points:
        speeds = {
            way: np.array([each.tokens_per_s for each in found if (each.way, each.at_once) == (way, at_once)])
            for way in WAYS
        }
        for way, own in speeds.items():
            rows.append((str(at_once), way, f"{median(own):.1f}", change(own, speeds[WAYS[0]])))
    return markdown.table(("at once", "plugin", "tokens/s, median", "against not loaded"), rows)


def change(own: np.ndarray, base: np.ndarray) -> str:
    """Percent of tokens per second, with the interval of the mean; too few repeats have none."""
    logs = np.log(own / base)
    if own is base or not len(logs):
        return "-"
    if len(logs) < 2:
        return f"{100 * np.expm1(logs.mean()):+.1f} %"
    wide = stats.t.ppf((1 + CONFIDENCE) / 2, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
    low, middle, high = 100 * np.expm1(logs.mean() + np.array([-wide, 0.0, wide]))
    return f"{middle:+.1f} % ({low:+.1f} to {high:+.1f})"


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.programs.inside_cost", description=__doc__)
    parser.add_argument("--vllm", type=Path, required=True, help="the program, of an environment with draftscope-vllm")
    parser.add_argument("--at-once", default="1,4,16", help="requests at once")
    parser.add_argument("--tokens", type=int, default=64, help="of each text")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(given)
    points = [int(each) for each in options.at_once.split(",")]
    with ExitStack() as opened:
        servers = [
            opened.enter_context(
                started(options.vllm.absolute(), command(plugins, PORT + number, max(points)), ("--enforce-eager",))
            )
            for number, plugins in enumerate(("vllm_55005", "draftscope,vllm_55005"))
        ]
        print(table(measure(servers, points, options.tokens, options.repeats), points))
        wire = Wire(servers[1].identity.url)
        print(f"\nSteps that the recorder had no time for: {read_state(wire).lost}.")
        wire.close()


if __name__ == "__main__":
    main()
