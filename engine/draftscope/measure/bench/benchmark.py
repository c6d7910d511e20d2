"""A whole benchmark: from a pair, a plan and texts to a report, and from the report to files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from draftscope.base.prompts import Prompt
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.bench_plan import BenchPlan
from draftscope.measure.bench.cases import cases
from draftscope.measure.bench.limit import memory_limit
from draftscope.measure.bench.peers import opened
from draftscope.measure.bench.report import BenchReport, kept_memory, machine, markdown, method
from draftscope.measure.bench.rows import headlines, rows
from draftscope.measure.bench.runner import Bench
from draftscope.measure.bench.systems import Label, drafter_systems
from draftscope.measure.bench.woken import woken
from draftscope.measure.greedy_checks import PROMPTS
from draftscope.measure.joint import Distance, joint_distance

TOKENS, TOP_K, SAMPLES = 4, 3, 2048  # as `draftscope check`


def benchmark(
    engine: DecodingEngine, plan: BenchPlan, texts: Mapping[str, Sequence[Prompt]], notes: Sequence[str] = ()
) -> BenchReport:
    """Runs `plan` on `texts`, with a progress bar on a terminal. `notes` come first in the report's notes.

    Raises `DraftscopeError` for a context that is too long for the models, or if nothing could be measured.
    """
    todo, unreadable = cases(engine, plan, texts)
    systems, unable = drafter_systems(engine, plan)
    with ExitStack() as until_done:
        missing: list[str] = []
        if plan.peers:
            longest = max(len(prompt) for case in todo for prompt in case.prompts) + plan.tokens
            peers, missing = opened(engine, longest, until_done)
            systems = [*systems, *peers]
        measuring = Bench(plan, systems, todo)
        runs = measuring.runs()
    limit = memory_limit(engine.target, max(len(prompt) for case in todo for prompt in case.prompts))
    apart = measure_distances(engine, [system.label for system in systems], plan.temperatures)
    peer_notes = [system.note for system in systems if system.note]
    left_out = [*notes, *unreadable, *unable, *missing, *measuring.notes]
    return BenchReport(
        machine(engine),
        method(plan),
        plan,
        rows(runs, apart),
        headlines(runs),
        peer_notes,
        left_out,
        kept_memory(engine, plan),
        limit,
        woken(engine, todo),
    )


def save(report: BenchReport, folder: Path) -> str:
    """Writes `bench.json` and `bench.md`; returns the Markdown."""
    text = markdown(report)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bench.json").write_text(report.as_json(), encoding="utf-8")
    (folder / "bench.md").write_text(text, encoding="utf-8")
    return text


def measure_distances(
    engine: DecodingEngine, labels: Sequence[Label], temperatures: Sequence[float]
) -> dict[tuple[Label, float], Distance]:
    """The distance of a lossy rule's output from the target's distribution, as in `check`, by label and temperature.

    Sampled with the real loop, outside the timed runs, above temperature 0, where rules differ: the joint distribution
    of the first tokens after one prompt, restricted to the target's most likely tokens, so that all outcomes can be
    computed.
    """
    prompt = engine.encode(PROMPTS[0], TOKENS + 2)
    distances = {}
    for label in labels:
        for temperature in temperatures:
            if label.lossy and temperature:
                settings = Settings.of(**label.settings, temperature=temperature, top_k=TOP_K)
                distances[label, temperature] = joint_distance(engine, prompt, settings, TOKENS, SAMPLES)
    return distances
