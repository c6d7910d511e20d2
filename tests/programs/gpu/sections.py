"""The sections of the GPU suite. Each measures one thing and returns plain rows.

Ratios are measured within one run if possible: eager and graphs in turn, drafter and plain in turn, a forward's traffic
over that of a copy on the same card.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import product
from time import monotonic
from typing import Any, TypeVar

import torch

from draftscope import drafters
from draftscope.base import prompts
from draftscope.base.errors import DraftscopeError
from draftscope.base.steps import last
from draftscope.decode.calibration import interleaved, machine
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.start import models_of
from draftscope.measure.bench.bench_plan import BenchPlan
from draftscope.measure.bench.benchmark import benchmark
from draftscope.measure.bench.peers.transformers import Transformers
from draftscope.measure.bench.report import BenchReport
from draftscope.measure.bench.systems import PLAIN, Case, DrafterSystem
from draftscope.measure.check import check
from draftscope.measure.greedy_checks import GreedyTest, greedy_identity
from draftscope.models.forward.emulated_size import SHAPES

GpuRow = dict[str, Any]
Item = TypeVar("Item")
LONG = 1 << 16  # positions; beyond the trained ones the text is nonsense, but the times are valid
PROMPT = "The two of them went down to the harbour, and"


SAID = {
    "exactness in float32": "Greedy texts must be equal to plain's: a tie counts as wrong.",
    "graphs": "Graphs replay the same kernels, so the greedy tokens must be equal.",
    "ties": "Known beforehand: in 16 bits a forward of one row and one of several run other kernels, so greedy texts "
    "may part where rounding decides the best token. Each parting is judged by the target's logits in float32.",
}


def until(end: float, items: Sequence[Item]) -> Iterator[Item]:
    """The items as long as there is time; then DraftscopeError, which names those that were not reached."""
    for place, item in enumerate(items):
        if monotonic() > end:
            raise DraftscopeError(f"Not reached, because the time was up: {', '.join(map(str, items[place:]))}.")
        yield item


def able(engine: DecodingEngine, first: Sequence[str]) -> list[str]:
    """The drafters that this pair can run, those of `first` first. Synthetic ones and typing need no card."""
    offered = [info.name for info in engine.drafters() if info.available and not drafters.find(info.name).synthetic]
    names = [name for name in offered if name != "typed"]
    return sorted(names, key=lambda name: first.index(name) if name in first else len(first))


def plain(engine: DecodingEngine, tokens: int, repeats: int) -> Iterator[GpuRow]:
    """Plain decoding and transformers' `generate` in turn, and both against the rate at which memory is copied."""
    theirs = Transformers(engine, "transformers-generate").prepare(_case(engine, tokens), tokens, seed=1)
    ours = DrafterSystem(engine, PLAIN).prepare(_case(engine, tokens), tokens, seed=1)
    (our_ms, _), (their_ms, _) = last(interleaved([ours, theirs], engine.target.device, repeats))
    read = sum(parameter.nbytes for parameter in engine.target.network.parameters()) / 1e9
    copied = last(machine(engine.target)).copy_gb_s
    yield {
        "target": engine.target.name, "tokens/s": 1e3 * tokens / our_ms, "generate tokens/s": 1e3 * tokens / their_ms,
        "ratio to generate": their_ms / our_ms, "GB a token": read, "copy GB/s": copied,
        "of the copy": read / copied * 1e3 * tokens / our_ms, "graphs": engine.target.graph_state,
    }  # fmt: skip


def _case(engine: DecodingEngine, tokens: int) -> Case:
    return Case("story", 0, (tuple(engine.encode(PROMPT, tokens)),), 0.0)


def exactness(fresh: Callable[[], DecodingEngine], names: Sequence[str], samples: int, end: float) -> Iterator[GpuRow]:
    """Every check of every drafter."""
    engine = fresh()
    for name in until(end, names):
        for finding in check(engine, name, samples):
            wrong = not finding.passed or finding.ties > 0
            yield {"drafter": name, "wrong": wrong, **asdict(finding)}


def ties(engine: DecodingEngine, names: Sequence[str], end: float) -> Iterator[GpuRow]:
    """The greedy test in the pair's own precision: how many texts part from plain's, and whether at ties."""
    first = GreedyTest(engine, "plain")
    for name in until(end, names):
        finding = last(greedy_identity(replace(first, drafter=name)))
        yield {"drafter": name, "wrong": not finding.passed, "ties": finding.ties, "detail": finding.detail}


def paired(
    loaded: Callable[[], dict[str, DecodingEngine]], names: Sequence[str], tokens: int, repeats: int, end: float
) -> Iterator[GpuRow]:
    """The same runs by several labs in turn: are greedy tokens equal, and medians of speed and of proposing."""
    labs = loaded()
    for drafter in until(end, names):
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in labs}
        texts: dict[str, list[int]] = {}
        for repeat in range(repeats + 1):
            for name, engine in labs.items():
                run = engine.decode(PROMPT, drafter, gamma=4, temperature=0.0, max_new_tokens=tokens, record=True)
                texts[name] = run.token_ids
                if repeat:  # the first warms up, and records graphs
                    taken[name].append((run.metrics.tokens_per_s or 0.0, run.metrics.stage_ms["propose"]))
        yield _paired_row(drafter, labs, taken, texts)


def _paired_row(
    drafter: str,
    labs: dict[str, DecodingEngine],
    taken: dict[str, list[tuple[float, float]]],
    texts: dict[str, list[int]],
) -> GpuRow:
    names = list(labs)
    speed = {name: statistics.median(pair[0] for pair in taken[name]) for name in names}
    propose = {name: statistics.median(pair[1] for pair in taken[name]) for name in names}
    row: GpuRow = {"drafter": drafter, "wrong": texts[names[0]] != texts[names[1]]}
    for name in names:
        row |= {f"{name} tokens/s": speed[name], f"{name} propose ms": propose[name]}
        used = models_of(labs[name], drafters.find(drafter))
        row[f"{name} state"] = "; ".join(model.graphs for model in used if model.graphs)
    row[f"{names[1]} / {names[0]}"] = speed[names[1]] / speed[names[0]]
    if drafter != "plain":
        row[f"propose {names[0]} / {names[1]}"] = propose[names[0]] / propose[names[1]]
    return row


def bandwidth(fresh: Callable[[], DecodingEngine], shapes: Sequence[str], tokens: int, end: float) -> Iterator[GpuRow]:
    """Plain decoding with real models' sizes: bytes read per second for the weights, compared with a copy.

    A shape that does not fit is modelled: its bytes at the copy's rate.
    """
    for name in until(end, shapes):
        engine, shape = fresh(), SHAPES[name]
        copied = last(machine(engine.target)).copy_gb_s
        row: GpuRow = {
            "shape": name,
            "GB a token": shape.read_values * engine.target.dtype.itemsize / 1e9,
            "copy GB/s": copied,
        }
        try:
            engine.target.emulate(shape)
            for count in (8, tokens):  # the first warms up, and records graphs
                speed = engine.decode(PROMPT, max_new_tokens=count, temperature=0.0).metrics.tokens_per_s or 0.0
            row |= {"tokens/s": speed, "of the copy": speed * row["GB a token"] / copied}
            row |= {"graphs": engine.target.graph_state, "measured": True}
        except DraftscopeError as error:
            row |= {"tokens/s": copied / row["GB a token"], "of the copy": 1.0, "measured": False, "why": str(error)}
        yield row
        del engine
        _free()


def emulated_sizes(
    loaded: Callable[[str], DecodingEngine], pairs: Sequence[str], tokens: int, repeats: int, end: float
) -> Iterator[GpuRow]:
    """Chains of four and plain, both with the sizes of a named pair; pairs with 'eagle3' draft with that head."""
    for name in until(end, pairs):
        try:
            engine = loaded(name)
        except DraftscopeError as error:
            yield {"pair": name, "why": str(error)}
            continue
        drafter = "eagle3" if name.endswith("eagle3") else "draft"
        speeds: dict[str, list[float]] = {"plain": [], drafter: []}
        for repeat in range(repeats + 1):
            for lane, rates in speeds.items():
                run = engine.decode(PROMPT, lane, gamma=4, temperature=0.0, max_new_tokens=tokens)
                rates += [run.metrics.tokens_per_s or 0.0] if repeat else []
        plain, fast = (statistics.median(speed) for speed in speeds.values())
        yield {"pair": name, "drafter": drafter, "plain tokens/s": plain, "ratio to plain": fast / plain}
        del engine
        _free()


def sweep(
    loaded: Callable[[], DecodingEngine], tokens: int, kinds: Sequence[str], cells: Sequence[dict[str, Any]], end: float
) -> Iterator[GpuRow]:
    """Ratio to plain of chains of four in each of these cells of a plan, medians over kinds of text, loops included."""
    engine = loaded()
    for model in engine.models:
        model.context = LONG
    for cell in until(end, cells):
        plan = BenchPlan(("draft",), gammas=(4,), temperatures=(0.0,), tokens=tokens, repeats=1, peers=False,
                         seconds=max(1.0, end - monotonic()), **cell)  # fmt: skip
        for row in _measured(engine, plan, kinds).rows:
            if row.name != PLAIN.name:
                yield {
                    **{name: value for name, (value,) in cell.items()}, "kind": row.kind, "system": row.name,
                    "ratio to plain": row.ratio_to_plain.median,
                }  # fmt: skip


def drafters_table(
    engine: DecodingEngine,
    tokens: int,
    repeats: int,
    kinds: Sequence[str],
    keep: Callable[[BenchReport, str], object],
    end: float,
) -> Iterator[GpuRow]:
    """Every drafter and transformers' own decoding over plain, a kind of text and a temperature at a time; `keep` gets
    each whole report and its name."""
    for kind, temperature in until(end, list(product(kinds, (0.0, 1.0)))):
        plan = BenchPlan(gammas=(4,), temperatures=(temperature,), tokens=tokens, repeats=repeats,
                         seconds=max(1.0, end - monotonic()))  # fmt: skip
        report = _measured(engine, plan, (kind,))
        keep(report, f"{kind}-T{temperature:g}")
        for row in report.rows:
            ratio = row.ratio_to_plain.median
            yield {"system": row.name, "temperature": temperature, "kind": kind, "ratio to plain": ratio}


def _measured(engine: DecodingEngine, plan: BenchPlan, kinds: Sequence[str]) -> BenchReport:
    return benchmark(engine, plan, prompts.select(prompts.shipped(), tuple(kinds), per_kind=1))


def _free() -> None:
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
