"""The sections of the GPU suite. Each measures one thing and returns plain rows.

Ratios are measured within one run if possible: eager and graphs in turn, drafter and plain in turn, a forward's traffic
over that of a copy on the same card.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from time import monotonic
from typing import Any

import torch

from draftscope import drafters
from draftscope.base import prompts
from draftscope.base.errors import DraftscopeError
from draftscope.decode.calibrate import machine
from draftscope.decode.lab import Lab
from draftscope.decode.start import models_of
from draftscope.measure.bench.benchmark import benchmark
from draftscope.measure.bench.plan import BenchPlan
from draftscope.measure.check import check
from draftscope.models.forward.ballast import SHAPES, modelled_ms

GpuRow = dict[str, Any]
PROMPT = "The two of them went down to the harbour, and"


def exactness(lab: Lab, samples: int, deadline: float) -> Iterator[GpuRow]:
    """Every check of every drafter that this pair can run, in fp32. Drafters not reached by the deadline are listed."""
    for info in lab.drafters():
        if not info.available:
            continue
        if monotonic() > deadline:
            yield {"drafter": info.name, "name": "not reached", "passed": None, "detail": "the time limit was reached"}
            continue
        for finding in check(lab, info.name, samples):
            yield {"drafter": info.name, **asdict(finding)}


def paired(labs: dict[str, Lab], wished: Sequence[str], tokens: int, repeats: int) -> list[GpuRow]:
    """The same runs by several labs in turn: are greedy tokens equal, and medians of speed and of proposing."""
    rows = []
    for drafter in wished:
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in labs}
        texts: dict[str, list[int]] = {}
        for repeat in range(repeats + 1):
            for name, lab in labs.items():
                run = lab.decode(PROMPT, drafter, temperature=0.0, max_new_tokens=tokens, record=True)
                texts[name] = run.token_ids
                if repeat:  # the first warms up, and records graphs
                    taken[name].append((run.metrics.tokens_per_s or 0.0, run.metrics.stage_ms["propose"]))
        rows.append(_paired_row(drafter, labs, taken, texts))
    return rows


def _paired_row(
    drafter: str, labs: dict[str, Lab], taken: dict[str, list[tuple[float, float]]], texts: dict[str, list[int]]
) -> GpuRow:
    names = list(labs)
    speed = {name: statistics.median(own[0] for own in taken[name]) for name in names}
    propose = {name: statistics.median(own[1] for own in taken[name]) for name in names}
    row: GpuRow = {"drafter": drafter, "tokens equal": texts[names[0]] == texts[names[1]]}
    for name in names:
        row |= {f"{name} tokens/s": speed[name], f"{name} propose ms": propose[name]}
        used = models_of(labs[name], drafters.find(drafter))
        row[f"{name} state"] = "; ".join(model.graphs for model in used if model.graphs)
    row[f"{names[1]} / {names[0]}"] = speed[names[1]] / speed[names[0]]
    if drafter != "plain":
        row[f"propose {names[0]} / {names[1]}"] = propose[names[0]] / propose[names[1]]
    return row


def bandwidth(fresh: Callable[[], Lab], shapes: Sequence[str], tokens: int) -> list[GpuRow]:
    """Plain decoding with real models' sizes: bytes read per second for the weights, compared with a copy.

    A shape that does not fit is modelled: its bytes at the copy's rate.
    """
    rows = []
    for name in shapes:
        lab, shape = fresh(), SHAPES[name]
        copied = machine(lab.target).copy_gb_s
        row: GpuRow = {
            "shape": name,
            "GB a token": shape.read_values * lab.target.dtype.itemsize / 1e9,
            "copy GB/s": copied,
        }
        try:
            lab.target.add_ballast(shape)
            for count in (8, tokens):  # the first warms up, and records graphs
                speed = lab.decode(PROMPT, max_new_tokens=count, temperature=0.0).metrics.tokens_per_s or 0.0
            row |= {"tokens/s": speed, "of the copy": speed * row["GB a token"] / copied}
            row |= {"graphs": lab.target.graph_state, "measured": True}
        except DraftscopeError as error:
            modelled = modelled_ms(shape, lab.target.dtype, copied)
            row |= {"tokens/s": 1e3 / modelled, "of the copy": 1.0, "measured": False, "why": str(error)}
        rows.append(row)
        del lab
        _free()
    return rows


def ballast(loaded: Callable[[str], Lab], pairs: Sequence[str], tokens: int, repeats: int) -> list[GpuRow]:
    """Chains of four and plain, both with the sizes of a named pair; pairs with 'eagle3' draft with that head."""
    rows: list[GpuRow] = []
    for name in pairs:
        try:
            lab = loaded(name)
        except DraftscopeError as error:
            rows.append({"pair": name, "why": str(error)})
            continue
        drafter = "eagle3" if name.endswith("eagle3") else "draft"
        speeds: dict[str, list[float]] = {"plain": [], drafter: []}
        for repeat in range(repeats + 1):
            for each, own in speeds.items():
                run = lab.decode(PROMPT, each, gamma=4, temperature=0.0, max_new_tokens=tokens)
                own += [run.metrics.tokens_per_s or 0.0] if repeat else []
        plain, fast = (statistics.median(own) for own in speeds.values())
        rows.append({"pair": name, "drafter": drafter, "plain tokens/s": plain, "ratio to plain": fast / plain})
        del lab
        _free()
    return rows


def sweep(lab: Lab, plan: BenchPlan) -> list[GpuRow]:
    """Ratio to plain of the plan's drafters in each of its cells, medians over kinds of text, including loops."""
    found = benchmark(lab, plan, prompts.select(prompts.shipped(), plan.kinds, plan.prompts_per_kind or 1)).rows
    rows = []
    for cell in dict.fromkeys((row.name, row.temperature, row.batch, row.context) for row in found):
        own = [row for row in found if (row.name, row.temperature, row.batch, row.context) == cell]
        ratio = statistics.median(row.ratio_to_plain.median for row in own)
        rows.append(dict(zip(("system", "temperature", "batch", "context"), cell, strict=True)) | {"ratio": ratio})
    return rows


def _free() -> None:
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
