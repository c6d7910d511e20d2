"""The GPU suite: exactness, speeds, graphs, waits and memory traffic on a CUDA machine, in under ten minutes.

    PYTHONPATH=engine python3 -m tests.programs.gpu --out FOLDER

Needs no gradio. The most important sections come first; each has its share of the time, and what is not reached is
named. Every row is saved when it is there, with the card, the date and the versions. Without CUDA it stops with one
sentence; `--device cpu` runs the same code on a CPU.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic

from draftscope.base.errors import MAX_NAMED, DraftscopeError, quoted
from draftscope.base.machine import machine_words
from draftscope.base.markdown import table
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.load import load
from draftscope.measure.bench.benchmark import save
from draftscope.measure.bench.report import machine
from tests.programs.gpu import kernels, sections
from tests.programs.gpu.sections import GpuRow


@dataclass(frozen=True)
class Size:
    """How much is measured. `seconds` are for all, those of `shares` at most for each section."""

    seconds: float = 540.0
    samples: int = 2048
    tokens: int = 96
    repeats: int = 3
    first: tuple[str, ...] = ("plain", "draft", "eagle3", "ngram", "sampled-tree", "eagle3-tree", "block", "medusa")
    shapes: tuple[str, ...] = ("1b", "8b", "30b-a3b")
    pairs: tuple[str, ...] = ("8b+1b", "8b+eagle3")
    batches: tuple[int, ...] = (1, 4, 16, 64)
    contexts: tuple[int, ...] = (512, 2048, 8192, 16384)
    kinds: tuple[str, ...] = ("story", "code")


SHARES = {
    "plain": 30.0, "exactness in float32": 130.0, "graphs": 70.0, "waits": 25.0, "attention": 20.0, "contexts": 60.0,
    "batches": 50.0, "bandwidth": 60.0, "drafters": 90.0, "ties": 40.0, "emulated sizes": 40.0,
}  # fmt: skip


def run(out: Path, device: str, size: Size, pair: tuple[str | None, str | None]) -> int:
    """Runs all sections. Returns how many rows say that something is wrong."""
    out.mkdir(parents=True, exist_ok=True)
    fresh = partial(load, *pair, device=device)
    sections: dict[str, list[GpuRow]] = {}
    engine, end = fresh(), monotonic() + size.seconds

    def keep(name: str, row: GpuRow) -> None:
        sections[name].append(row)
        text = json.dumps({"machine": machine(engine), "sections": sections}, indent=1)
        (out / "gpu.json").write_text(text, encoding="utf-8")
        (out / "gpu.md").write_text(_markdown(engine, sections), encoding="utf-8")

    for name, rows in _sections(fresh, engine, size, out).items():
        sections[name] = []
        _within(partial(rows, min(end, monotonic() + SHARES[name])), partial(keep, name), end)
        print(f"{_section(name, sections[name])}\n", flush=True)
    return sum(row.get("wrong") is True for rows in sections.values() for row in rows)


def _sections(
    fresh: Callable[..., DecodingEngine], engine: DecodingEngine, size: Size, out: Path
) -> dict[str, Callable[[float], Iterable[GpuRow]]]:
    """The sections by name, the most important first; each gets the time at which it should end."""
    names = sections.able(engine, size.first)
    speculative = [name for name in names if name != "plain"]
    sweep = partial(sections.sweep, partial(_large, fresh, size.pairs), size.tokens, size.kinds)
    return {
        "plain": lambda _: sections.plain(engine, size.tokens, size.repeats),
        "exactness in float32": partial(
            sections.exactness, partial(fresh, dtype="float32"), speculative, size.samples
        ),
        "graphs": partial(sections.paired, lambda: {"eager": fresh(graphs=False), "graphs": engine}, names, size.tokens,
                          size.repeats),
        "waits": partial(kernels.waits, engine, names, size.tokens),
        "attention": partial(kernels.attention, engine.target.device, engine.target.dtype, size.contexts),
        "contexts": partial(sweep, [{"contexts": (context,)} for context in size.contexts]),
        "batches": partial(sweep, [{"batches": (batch,)} for batch in size.batches]),
        "bandwidth": partial(sections.bandwidth, fresh, size.shapes, size.tokens),
        "drafters": partial(sections.drafters_table, engine, size.tokens, size.repeats, size.kinds,
                            lambda report, name: save(report, out / name)),
        "ties": partial(sections.ties, engine, speculative),
        "emulated sizes": partial(sections.emulated_sizes, lambda name: fresh(emulate=name), size.pairs, size.tokens,
                                  size.repeats),
    }  # fmt: skip


def _within(rows: Callable[[], Iterable[GpuRow]], keep: Callable[[GpuRow], None], end: float) -> None:
    """Keeps the rows of a section; one that cannot go on says why, and the sections after it still run."""
    if monotonic() > end:
        return keep({"why": "not reached: the time was up"})
    try:
        for row in rows():
            keep(row)
    except DraftscopeError as error:
        keep({"why": str(error)})
    except Exception as error:  # torch, CUDA and transformers raise what they like
        keep({"wrong": True, "why": f"{type(error).__name__}: {quoted(str(error), MAX_NAMED)}"})
    return None


def _large(fresh: Callable[..., DecodingEngine], pairs: tuple[str, ...]) -> DecodingEngine:
    """The pair with the first emulated size that fits, without any where none does."""
    for name in pairs:
        try:
            return fresh(emulate=name)
        except DraftscopeError:
            continue
    return fresh()


def _markdown(engine: DecodingEngine, sections: dict[str, list[GpuRow]]) -> str:
    head = machine_words(machine(engine))
    return "\n\n".join([head, *(_section(name, rows) for name, rows in sections.items())]) + "\n"


def _section(name: str, rows: list[GpuRow]) -> str:
    """A column for every key."""
    names = list(dict.fromkeys(key for row in rows for key in row))
    text = table(names, [[_cell(row.get(name)) for name in names] for row in rows])
    return "\n\n".join(part for part in (f"## {name}", sections.SAID.get(name, ""), text) if part)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> int:
    """Without typer and the app, which a GPU machine need not have. Exit codes as the app's."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs.gpu", description=__doc__.split("\n")[0])
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
