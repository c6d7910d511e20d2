"""The GPU suite: exactness, graphs, bandwidth, ballast, sweeps and every drafter on a CUDA machine, under ten minutes.

    PYTHONPATH=engine python3 -m draftscope.measure.gpu --out FOLDER

Needs no gradio. Each section's results are saved when it ends, with the card, the date and the versions. Without CUDA
it stops with one sentence; `--device cpu` runs the same code on a CPU.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic

from draftscope.base import prompts
from draftscope.base.errors import DraftscopeError
from draftscope.base.machine import machine_words
from draftscope.base.markdown import table
from draftscope.decode.lab import Lab
from draftscope.decode.load import load
from draftscope.measure.bench.benchmark import benchmark, save
from draftscope.measure.bench.plan import BenchPlan
from draftscope.measure.bench.report import machine
from draftscope.measure.gpu import sections
from draftscope.measure.gpu.sections import GpuRow

LONG = 1 << 16  # positions; beyond the trained ones the text is nonsense, but the times are valid


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    samples: int = 4096
    tokens: int = 96
    repeats: int = 3
    exactness_s: float = 170.0
    sweep_s: float = 60.0  # each of the two
    drafters_s: float = 120.0
    graphs: tuple[str, ...] = ("plain", "draft", "sampled-tree", "eagle3", "ngram")
    shapes: tuple[str, ...] = ("1b", "8b", "30b-a3b")
    pairs: tuple[str, ...] = ("8b+1b", "8b+eagle3")
    batches: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128)
    contexts: tuple[int, ...] = (256, 1024, 4096, 16384, 32768)


def run(out: Path, device: str, size: Size, pair: tuple[str | None, str | None]) -> int:
    """Runs all sections. Returns how many checks found a difference plus how many greedy texts differ with graphs."""
    out.mkdir(parents=True, exist_ok=True)
    fresh = partial(load, *pair, device=device)
    found: dict[str, list[GpuRow]] = {}

    def ended(name: str, rows: list[GpuRow]) -> None:
        found[name] = rows
        text = json.dumps({"machine": machine(lab), "sections": found}, indent=1)
        (out / "gpu.json").write_text(text, encoding="utf-8")
        (out / "gpu.md").write_text(_markdown(lab, found), encoding="utf-8")
        print(f"## {name}\n\n{_table(rows)}\n", flush=True)

    lab = load(*pair, dtype="float32", device=device)
    ended("exactness", list(sections.exactness(lab, size.samples, monotonic() + size.exactness_s)))
    lab = fresh()
    labs = {"eager": fresh(graphs=False), "graphs": lab}
    ended("graphs", sections.paired(labs, _able(lab, size.graphs), size.tokens, size.repeats))
    del labs
    ended("bandwidth", sections.bandwidth(fresh, size.shapes, size.tokens))
    ended("ballast", sections.ballast(lambda name: fresh(ballast=name), size.pairs, size.tokens, size.repeats))
    few = partial(BenchPlan, ("draft",), gammas=(4,), temperatures=(0.0,), tokens=size.tokens, repeats=1, peers=False,
                  prompts_per_kind=1, seconds=size.sweep_s)  # fmt: skip
    ended("batch", sections.sweep(lab, few(batches=size.batches)))
    ended("context", sections.sweep(_long(fresh()), few(contexts=size.contexts)))
    plan = BenchPlan(gammas=(4,), tokens=size.tokens, repeats=size.repeats, prompts_per_kind=1, seconds=size.drafters_s)
    print(save(benchmark(lab, plan, prompts.select(prompts.shipped(), per_kind=1)), out))
    failed = [row for row in found["exactness"] if row["passed"] is False]
    return len(failed) + len([row for row in found["graphs"] if not row["tokens equal"]])


def _able(lab: Lab, wished: tuple[str, ...]) -> list[str]:
    able = {info.name for info in lab.drafters() if info.available}
    return [name for name in wished if name in able]


def _long(lab: Lab) -> Lab:
    """The same models, allowed beyond the context that they were trained for."""
    for model in lab.models:
        model.context = LONG
    return lab


def _markdown(lab: Lab, found: dict[str, list[GpuRow]]) -> str:
    head = machine_words(machine(lab))
    return "\n\n".join([head, *(f"## {name}\n\n{_table(rows)}" for name, rows in found.items())]) + "\n"


def _table(rows: list[GpuRow]) -> str:
    """A column for every key."""
    names = list(dict.fromkeys(key for row in rows for key in row))
    return table(names, [[_cell(row.get(name)) for name in names] for row in rows])


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> int:
    """The only command line in the engine: the GPU machine has neither typer nor the app. Exit codes as the app's."""
    parser = argparse.ArgumentParser(prog="python -m draftscope.measure.gpu", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("bench"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--target", help="hub id or folder; default: the embedded pair")
    parser.add_argument("--draft", help="hub id or folder")
    args = parser.parse_args()
    try:
        return 1 if run(args.out, args.device, Size(), (args.target, args.draft)) else 0
    except DraftscopeError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
