"""A sweep over batch sizes, measured by the benchmark and saved run by run, for a lesson about batches.

A trace has the run of one text, and a batch has several; so each whole run of the sweep is one record.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from draftscope.base.errors import DraftscopeError
from draftscope.base.prompts import Prompt
from draftscope.decode.engine import DecodingEngine
from draftscope.measure.bench.bench_plan import BenchPlan
from draftscope.measure.bench.cases import cases
from draftscope.measure.bench.report import machine
from draftscope.measure.bench.runner import Bench
from draftscope.measure.bench.systems import drafter_systems
from draftscope.trace.events import Record


class Swept(Record):
    """One whole run: `batch` continuations of a prompt, `tokens` each, together in `seconds`, prefill included."""

    drafter: str
    gamma: int | None = None  # absent for plain decoding
    batch: int
    tokens: int
    temperature: float
    repeat: int  # all systems of a repeat ran in turn; ratios are taken within it
    seconds: float
    rounds: int
    verify_ms: float  # of a round: the target's forward, median at each width, weighted by how often it occurred
    width: int  # rows of each text in the widest of those forwards
    machine: dict[str, str | int]


def measure(engine: DecodingEngine, plan: BenchPlan, prompts: Sequence[str]) -> list[Swept]:
    """Every run of the plan on these prompts. `DraftscopeError` where one of its systems could not run."""
    systems, unable = drafter_systems(engine, plan)
    todo, pending_features = cases(engine, plan, {"text": [Prompt("text", prompt) for prompt in prompts[:1]]})
    bench = Bench(plan, systems, todo)
    runs = bench.runs()
    if missing := [*unable, *pending_features, *bench.notes]:
        raise DraftscopeError(f"The sweep is incomplete: {' '.join(missing)}")
    about = machine(engine)
    found = []
    for run in runs:
        assert run.rounds is not None  # all are our own
        found.append(
            Swept(
                drafter=run.label.drafter,
                gamma=run.label.gamma,
                batch=run.case.batch,
                tokens=plan.tokens,
                temperature=run.case.temperature,
                repeat=run.repeat,
                seconds=run.seconds,
                rounds=len(run.rounds.width),
                verify_ms=run.rounds.stage_ms()["verify"],
                width=int(run.rounds.width.max()),
                machine=about,
            )
        )
    return found


def write(path: Path, runs: Sequence[Swept]) -> None:
    path.write_text("".join(f"{run.model_dump_json(exclude_none=True)}\n" for run in runs), encoding="utf-8")
