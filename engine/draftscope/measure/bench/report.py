"""What a benchmark leaves: everything that was measured and what it belongs to, as one object of plain values."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import torch
import transformers

from draftscope.base.versions import own_version
from draftscope.decode.lab import Lab
from draftscope.measure.bench.plan import BenchPlan
from draftscope.measure.bench.rows import BenchRow, Headline
from draftscope.measure.bench.statistics import LEVEL, LOOP


@dataclass(frozen=True)
class KeptMemory:
    """What one loaded model keeps of a sequence of `tokens`: a cache that grows with it, or a `constant` state."""

    model: str
    role: str  # target or draft
    tokens: int
    bytes: int
    constant: bool


@dataclass(frozen=True)
class BenchReport:
    """Everything that was measured, and what it belongs to."""

    machine: dict[str, str | int]
    method: str
    plan: BenchPlan
    rows: list[BenchRow]
    headlines: list[Headline]
    peers: list[str]  # the settings they ran with
    notes: list[str]  # what was left out, and why
    kept: list[KeptMemory]  # at the end of every context of the plan, by every model that is loaded

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=1)


def kept(lab: Lab, plan: BenchPlan) -> list[KeptMemory]:
    """What each model keeps at the end of each context, from its shape; nothing where no context was named."""
    models = [("target", lab.target), *(("draft", model) for model in lab.models[1:])]
    models += [("draft", lab.foreign.model)] if lab.foreign is not None else []
    return [
        KeptMemory(model.name, role, context + plan.tokens, model.kept_bytes(context + plan.tokens), model.recurrent)
        for role, model in models
        for context in plan.contexts
    ]


def method(plan: BenchPlan) -> str:
    """How it was measured, in words."""
    return (
        f"{plan.tokens} tokens a sequence, prefill included, ends of text not heeded. Whole solo runs, one system "
        f"after the other, in {plan.repeats} interleaved repeats after one pass of warm-up that is not counted; every "
        "run starts with empty caches, and above T = 0 every repeat has a seed of its own. Ratios are taken within the "
        f"same repeat of the same prompt; medians, with {LEVEL:.0%} bootstrap intervals over (prompt, repeat) pairs. "
        f"The headline is the median over kinds of text, without continuations that loop: more than {LOOP:.0%} of the "
        "4-grams, in the system's own or in plain's, occurred before."
    )


def machine(lab: Lab) -> dict[str, str | int]:
    """What the numbers belong to."""
    device = lab.target.device
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "draftscope": own_version(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
        "dtype": str(lab.target.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "target": lab.target.name,
        "draft": lab.draft.name if lab.draft else "",
    }
