"""How fast this CPU multiplies few rows by a model's weights: `python -m draftscope.measure.products --help`.

Plain decoding reads every weight once a token, so its limit is the speed of memory. A plain copy of the same bytes and
every way to multiply are timed in turn, on weights of one model's shapes and number; each time is a median. v(n) is the
time of n rows divided by that of one row.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from time import perf_counter

import torch
import torch.nn.functional as F
from torch import Tensor

from draftscope.base import markdown
from draftscope.measure.program import run
from draftscope.models.forward.linear import product
from draftscope.models.native.available import why_not
from draftscope.models.native.linear import linear

Shapes = tuple[tuple[int, int, int], ...]  # how many weights of how many outputs and inputs

MODELS: dict[str, Shapes] = {
    "Llama-Draftscope-15M": ((8, 768, 384), (8, 384, 384), (8, 2048, 384), (8, 384, 1024), (1, 4096, 384)),
    "SmolLM2-135M": ((30, 960, 576), (30, 576, 576), (30, 3072, 576), (30, 576, 1536), (1, 49152, 576)),
}
ROWS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
TIMES = 9
COPY = "copy"
NATIVE = "compiled here"

Ways = dict[str, Callable[[dict[int, Tensor]], object]]  # by name; called with rows [n, inputs] by number of inputs


def ways(shapes: Shapes) -> tuple[Ways, int]:
    """What to time, and the bytes of the weights that each of it reads."""
    generator = torch.Generator().manual_seed(0)
    weights = [
        torch.randn((outputs, inputs), generator=generator).mul_(inputs**-0.5).bfloat16()
        for count, outputs, inputs in shapes
        for _ in range(count)
    ]
    size = sum(weight.nbytes for weight in weights)
    source = torch.ones(size, dtype=torch.uint8)
    target = torch.zeros_like(source)
    packed = [product(weight, packed=True) for weight in weights]
    inputs = [weight.shape[1] for weight in weights]
    found: Ways = {
        COPY: lambda _: target.copy_(source),
        "oneDNN, packed": lambda rows: [multiply(rows[i]) for multiply, i in zip(packed, inputs, strict=True)],
        "F.linear": lambda rows: [F.linear(rows[i], weight) for i, weight in zip(inputs, weights, strict=True)],
    }
    if not why_not():
        found[NATIVE] = lambda rows: [linear(rows[i], weight) for i, weight in zip(inputs, weights, strict=True)]
    return found, size


@torch.inference_mode()
def measured(shapes: Shapes, rows: Sequence[int], times: int = TIMES) -> tuple[dict[tuple[str, int], float], int]:
    """Median seconds by way and number of rows, timed in turn, and the bytes of the weights."""
    todo, size = ways(shapes)
    taken: dict[tuple[str, int], list[float]] = {}
    for repeat in range(times + 1):
        for count in rows:
            x = {inputs: torch.ones((count, inputs), dtype=torch.bfloat16) for _, _, inputs in shapes}
            for name, work in todo.items():
                began = perf_counter()
                work(x)
                if repeat:  # the first pass warms up
                    taken.setdefault((name, count), []).append(perf_counter() - began)
    return {key: statistics.median(each) for key, each in taken.items()}, size


def table(seconds: dict[tuple[str, int], float], size: int) -> str:
    """GB of weights a second by way and number of rows; the copy's bytes are read and written."""
    counts = sorted({count for _, count in seconds})
    lines = []
    for name in dict.fromkeys(name for name, _ in seconds):
        speeds = [size / 1e9 / seconds[name, count] for count in counts]
        lines.append((f"{name}, GB/s", *(f"{speed:.1f}" for speed in speeds)))
        if name != COPY:
            ratios = (seconds[name, count] / seconds[name, counts[0]] for count in counts)
            lines.append((f"{name}, v", *(f"{ratio:.2f}" for ratio in ratios)))
    return markdown.table(("", *(f"{count} rows" for count in counts)), lines)


def report(names: Sequence[str], threads: Sequence[int], rows: Sequence[int], times: int) -> str:
    """One table for each model and number of threads. Leaves torch's number of threads as it was."""
    parts, before = [why_not()], torch.get_num_threads()
    try:
        for name in names:
            for count in threads:
                torch.set_num_threads(count)
                seconds, size = measured(MODELS[name], rows, times)
                title = f"{name}, {size / 1e6:.0f} MB of bfloat16 weights, threads: {count}"
                parts.append(f"{title}\n\n{table(seconds, size)}")
    finally:
        torch.set_num_threads(before)
    return "\n\n".join(part for part in parts if part)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m draftscope.measure.products", description=__doc__)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), help="whose shapes to multiply")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS))
    parser.add_argument("--times", type=int, default=TIMES, help="timed passes; the median counts")
    run(parser, lambda given: report(given.models, given.threads, given.rows, given.times))


if __name__ == "__main__":
    main()
