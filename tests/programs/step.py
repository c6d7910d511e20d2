"""Where the time of a plain step goes on this processor: `python -m tests.programs.step --help`.

Runs at temperature 0 and 1 take turns with the model's products alone, one call for each weight in the order of a
forward. The program is the compiled forward; its rest is what it takes beyond the products alone. Stages are those of
the session. Each number is the median of runs' medians over steps.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from time import perf_counter
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from draftscope.base import markdown
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.load import load
from draftscope.drafters.settings import Settings
from draftscope.models.forward import native
from draftscope.models.forward.decoder import Decoder, Weight
from draftscope.models.forward.native import NativeDecoder
from draftscope.models.native import places as at
from draftscope.models.native.available import programs

PROMPT = "Once upon a time there was a little dog who liked to run in the park with his friends. "
TOKENS, RUNS = 96, 7
WEIGHTS = {"qkv": "queries, keys, values", "out": "after attention", "up": "gate and up", "down": "down"}

Parts = dict[str, float]  # seconds by name


def products(decoder: Decoder) -> Callable[[], Parts]:
    """Times one row times every weight of a model; the seconds by kind of weight."""
    calls = [(f"product: {WEIGHTS[name]}", _call(getattr(layer, name))) for layer in decoder.layers for name in WEIGHTS]
    calls.append(("product: output", _call(decoder.head)))
    call, program, threads = programs().run, programs().multiply, torch.get_num_threads()

    def timed() -> Parts:
        spent = dict.fromkeys((name for name, _ in calls), 0.0)
        for name, (arguments, _) in calls:
            began = perf_counter()
            call(program, arguments, at.M_TEAM, threads)
            spent[name] += perf_counter() - began
        return spent

    return timed


def _call(weight: Weight) -> tuple[Any, Any]:
    """The arguments of the product of one row and a weight, and the memory they refer to."""
    outputs, length = weight.shape
    memory = torch.ones(length, dtype=torch.bfloat16), torch.empty(length), torch.empty(outputs)
    a = np.zeros(at.M_ARGUMENTS, dtype=np.int64)
    a[at.M_ROWS], a[at.M_LENGTH], a[at.M_OUTPUTS], a[at.M_WEIGHT] = 1, length, outputs, weight.data_ptr()
    a[at.M_X], a[at.M_SPLIT], a[at.M_PRODUCT] = (each.data_ptr() for each in memory)
    return a, memory


@contextmanager
def _timed_program() -> Iterator[list[float]]:
    """The seconds of every call of the compiled forward inside."""
    spent: list[float] = []
    own = programs()

    def timed(*given: Any) -> None:
        began = perf_counter()
        own.run(*given)
        spent.append(perf_counter() - began)

    with patch.object(native, "programs", lambda: own._replace(run=timed)):
        yield spent


def steps(engine: DecodingEngine, temperature: float, seed: int) -> Parts:
    """Medians over the steps of a run."""
    settings = Settings.of(drafter="plain", temperature=temperature, seed=seed, max_new_tokens=TOKENS)
    session = engine.start_batch([engine.encode(PROMPT, TOKENS)], settings, (0,), ends=False)
    session.prefill()
    found: dict[str, list[float]] = {}
    with _timed_program() as program:
        began = perf_counter()
        for step in session.steps():
            whole = perf_counter() - began
            parts = {name: each / 1e3 for name, each in step.stages.items()}
            parts["verify"] -= program[-1]
            outside = whole - sum(parts.values()) - program[-1]
            for name, each in {"program": program[-1], **parts, "between rounds": outside, "step": whole}.items():
                found.setdefault(name, []).append(each)
            began = perf_counter()
    return {name: median(each) for name, each in found.items()}


def measured(engine: DecodingEngine, runs: int = RUNS) -> dict[str, Parts]:
    """The parts of a step in the order of a round, by column: T = 0 and T = 1."""
    assert isinstance(engine.target.run, NativeDecoder)
    alone = products(engine.target.run.decoder)
    columns: dict[str, list[Parts]] = {"T = 0": [], "T = 1": []}
    weights: list[Parts] = []
    for seed in range(runs + 1):  # the first one warms up
        for temperature, column in enumerate(columns.values()):
            weights.append(alone())
            column.append(steps(engine, float(temperature), seed))
    each = _medians(weights[2:])
    result = {}
    for name, column in columns.items():
        whole = _medians(column[1:])
        rest = {"rest of the program": whole.pop("program") - sum(each.values()), **whole}
        result[name] = {**each, **rest}
    return result


def _medians(found: list[Parts]) -> Parts:
    return {name: median(each[name] for each in found) for name in found[0]}


def table(found: dict[str, Parts]) -> str:
    head = ("", *(f"{name}, {unit}" for name in found for unit in ("ms", "share")))
    lines = []
    for part in next(iter(found.values())):
        cells = [(f"{1e3 * each[part]:.3f}", f"{each[part] / each['step']:.1%}") for each in found.values()]
        lines.append((part, *(cell for pair in cells for cell in pair)))
    return markdown.table(head, lines)


def _report(given: argparse.Namespace) -> str:
    with load(given.target, threads=given.threads) as engine:
        if not isinstance(engine.target.run, NativeDecoder):
            raise SystemExit(f"'{engine.target.name}' does not run compiled in bfloat16; choose another target.")
        title = f"{engine.target.name}, bfloat16, threads: {torch.get_num_threads()}"
        return f"{title}\n\n{table(measured(engine, given.runs))}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.programs.step", description=__doc__)
    parser.add_argument("--target", help="a model that runs compiled; the embedded one is the default")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--runs", type=int, default=RUNS, help="the median of so many counts")
    print(_report(parser.parse_args()))


if __name__ == "__main__":
    main()
