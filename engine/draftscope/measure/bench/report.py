"""The result of a benchmark: all measurements, and the machine and models they belong to, as plain values."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

import torch
import transformers

from draftscope.base.machine import own_version
from draftscope.decode.engine import DecodingEngine
from draftscope.measure.bench.limit import MemoryLimit
from draftscope.measure.bench.plan import BenchPlan
from draftscope.measure.bench.rows import BenchRow, Headline
from draftscope.measure.bench.statistics import LEVEL, LOOP
from draftscope.measure.bench.woken import Woken


@dataclass(frozen=True)
class KeptMemory:
    """A loaded model's memory of a sequence of `tokens`: a cache that grows with it, or a state of constant size."""

    model: str
    role: str  # target or draft
    tokens: int
    bytes: int
    constant: bool


@dataclass(frozen=True)
class BenchReport:
    """All measurements, and the machine and models they belong to."""

    machine: dict[str, str | int]
    method: str
    plan: BenchPlan
    rows: list[BenchRow]
    headlines: list[Headline]
    peers: list[str]  # the settings of other programs
    notes: list[str]  # what was skipped and why
    kept: list[KeptMemory]  # of every loaded model, at the end of every context of the plan
    limit: MemoryLimit | None  # of plain decoding; None where it was not measured
    woken: list[Woken] = field(default_factory=list)  # of a mixture of experts

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=1)


def kept(engine: DecodingEngine, plan: BenchPlan) -> list[KeptMemory]:
    """Each model's memory at the end of each context, from its shape; empty if the plan has no contexts."""
    models = [("target", engine.target), *(("draft", model) for model in engine.models[1:])]
    models += [("draft", engine.foreign.model)] if engine.foreign is not None else []
    return [
        KeptMemory(model.name, role, context + plan.tokens, model.kept_bytes(context + plan.tokens), model.recurrent)
        for role, model in models
        for context in plan.contexts
    ]


def method(plan: BenchPlan) -> str:
    """How it was measured, in words."""
    return (
        f"{plan.tokens} tokens per sequence, including prefill; ends of text are ignored. Whole solo runs, one system "
        f"after the other, in {plan.repeats} interleaved repeats after one warm-up pass; every run starts with empty "
        "caches, and above T = 0 every repeat has its own seed. Ratios are taken within the "
        f"same repeat of the same prompt; medians, with {LEVEL:.0%} bootstrap intervals over (prompt, repeat) pairs. "
        f"The headline is the median over kinds of text, without continuations that loop: more than {LOOP:.0%} of the "
        "4-grams, in the system's own or in plain's, occurred before."
    )


def machine(engine: DecodingEngine) -> dict[str, str | int]:
    """The machine, versions and models that the numbers belong to."""
    device = engine.target.device
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "draftscope": own_version(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
        "dtype": str(engine.target.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "target": engine.target.name,
        "target_weights": engine.target.weights,
        "draft": engine.draft.name if engine.draft else "",
        "draft_weights": engine.draft.weights if engine.draft else "",
    }
