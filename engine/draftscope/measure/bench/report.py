"""The result of a benchmark: all measurements, and the machine and models they belong to, as values and as Markdown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import Any

import torch
import transformers

from draftscope.base.machine import machine_words, own_version
from draftscope.base.markdown import one_line, table
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.start import device_name
from draftscope.measure.bench.bench_plan import BenchPlan, where
from draftscope.measure.bench.limit import MemoryLimit
from draftscope.measure.bench.round_arrays import STAGES
from draftscope.measure.bench.rows import BenchRow, Headline
from draftscope.measure.bench.statistics import LEVEL, LOOP
from draftscope.measure.bench.woken import Woken
from draftscope.measure.joint import Distance
from draftscope.models.native.available import instructions

PLAIN_DECODING = {"plain", "transformers-generate", "llama.cpp"}  # names of rows
Cell = tuple[float, int, int | None]
TERMS = {"tau": "tau", "gamma_c": "gamma c", "v": "v", "o": "o", "before": "before"}  # of a prediction
POSITIONS = 4  # of a draft, in the table of alphas


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


def kept_memory(engine: DecodingEngine, plan: BenchPlan) -> list[KeptMemory]:
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
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "draftscope": own_version(),
        "device": device_name(engine.target.device),
        "instructions": instructions() if engine.target.device.type == "cpu" else "",
        "dtype": str(engine.target.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "target": engine.target.name,
        "target_weights": engine.target.weights,
        "draft": engine.draft.name if engine.draft else "",
        "draft_weights": engine.draft.weights if engine.draft else "",
    }


def markdown(report: BenchReport) -> str:
    """Machine, method, a table for every cell, prediction, stages, and what was skipped."""
    parts = [machine_words(report.machine), report.method]
    parts += _headline_tables(report.headlines)
    parts += [_kinds_table(cell, report.rows) for cell in dict.fromkeys(_cell(row) for row in report.rows)]
    parts += [_alpha_table(cell, report.rows) for cell in dict.fromkeys(_cell(row) for row in report.rows)]
    parts += [_lossy_table(report.rows)] if any(row.lossy for row in report.rows) else []
    parts += [_prediction_table(report.rows), _stages_table(report.rows)]
    parts += [_limit_tables(report.limit, report.rows)] if report.limit is not None else []
    parts += [_woken_table(report.woken)] if report.woken else []
    parts += [
        _listed(title, lines) for title, lines in (("Other programs", report.peers), ("Skipped", report.notes)) if lines
    ]
    return "\n\n".join(parts) + "\n"


def _listed(title: str, lines: Sequence[str]) -> str:
    return f"{title}:\n\n" + "\n".join(f"- {one_line(line)}" for line in lines)


def _cell(of: BenchRow | Headline) -> Cell:
    return of.temperature, of.batch, of.context


def _headline_tables(headlines: Sequence[Headline]) -> list[str]:
    """A table for each batch and context, with a row for each system and a column for each temperature."""
    by_size: dict[tuple[int, int | None], list[Headline]] = {}
    for headline in headlines:
        by_size.setdefault((headline.batch, headline.context), []).append(headline)
    return [_headline_table(group) for group in by_size.values()]


def _headline_table(headlines: Sequence[Headline]) -> str:
    cells = list(dict.fromkeys(_cell(headline) for headline in headlines))
    rows = []
    for system in dict.fromkeys(headline.name for headline in headlines):
        by_cell = {_cell(headline): _headline_words(headline) for headline in headlines if headline.name == system}
        rows.append([system, *(by_cell.get(cell, "-") for cell in cells)])
    title = f"Headline: tokens/s divided by plain's, median over kinds [{LEVEL:.0%} interval], without looping runs:"
    return _titled(title, table(["system", *(where(*cell) for cell in cells)], rows, "l" + "r" * len(cells)))


def _kinds_table(cell: Cell, rows: Sequence[BenchRow]) -> str:
    """Ratio to plain by kind of text, speed, and whether the tokens equal plain's."""
    rows = [row for row in rows if _cell(row) == cell]
    kinds = list(dict.fromkeys(row.kind for row in rows))
    batched = "; after the slash: until the first sequence of the batch ends, without prefill" if cell[1] > 1 else ""
    lines = []
    for group in _by_system(rows):
        by_kind = {row.kind: _ratio(row) for row in group}
        speed = f"{median(row.tokens_per_s for row in group):.0f}"
        lines.append([group[0].name, *(by_kind.get(kind, "-") for kind in kinds), speed, _compared(group)])
    title = (
        f"By kind of text, {where(*cell)}, looping runs included (mean acceptance length; ~ if every run "
        f"loops{batched}):"
    )
    head = ["system", *kinds, "tokens/s", "tokens vs plain"]
    return _titled(title, table(head, lines, "l" + "r" * (len(kinds) + 1) + "l"))


def _alpha_table(cell: Cell, rows: Sequence[BenchRow]) -> str:
    """Conditional acceptance by position and kind of text, for systems that draft."""
    rows = [row for row in rows if _cell(row) == cell and row.conditional_alpha]
    kinds = list(dict.fromkeys(row.kind for row in rows))
    lines = []
    for group in _by_system(rows):
        by_kind = {row.kind: " ".join(map(_share, row.conditional_alpha[:POSITIONS])) for row in group}
        lines.append([group[0].name, *(by_kind.get(kind, "-") for kind in kinds)])
    title = (
        f"Conditional alpha by position, {where(*cell)}: accepted / rounds that reached the position and drafted it, "
        f"the first {POSITIONS} positions:"
    )
    return _titled(title, table(["system", *kinds], lines))


def _lossy_table(rows: Sequence[BenchRow]) -> str:
    """The speed of lossy rules, and the distance of their distribution from the target's."""
    apart = [row.distance for row in rows if row.distance is not None]
    over = f"{apart[0].tokens} tokens, top-k {apart[0].top_k}, {apart[0].samples} samples" if apart else "none sampled"
    lines = []
    for group in _by_system([row for row in rows if row.lossy]):
        ratio = f"{median(row.ratio_to_plain.median for row in group):.2f}"
        lines.append([group[0].name, where(*_cell(group[0])), ratio, *_distance(group[0].distance)])
    title = (
        "Lossy rules do not write the target's distribution. Tokens/s over plain's, median over kinds, including "
        f"loops; distance of the joint distribution from the target's ({over}; in brackets the distance due to "
        "sampling alone), KL in nats. At T = 0 every rule writes the target's tokens:"
    )
    return _titled(title, table(["system", "at", "tokens/s over plain's", "total variation", "KL"], lines, "llrrr"))


def _distance(distance: Distance | None) -> tuple[str, str]:
    """Total variation and KL, if they were sampled."""
    if distance is None:
        return "-", "-"
    divergence = "infinite" if distance.kl is None else f"{distance.kl:.3f}"
    return (
        f"{distance.total_variation:.3f} [{distance.sampling_total_variation:.3f}]",
        f"{divergence} [{distance.sampling_kl:.3f}]",
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}".removeprefix("0")


def _ratio(row: BenchRow) -> str:
    length = "" if row.mean_acceptance_length is None else f" ({row.mean_acceptance_length:.2f})"
    full = "" if row.ratio_while_full is None else f" / {row.ratio_while_full.median:.2f}"
    return f"{row.ratio_to_plain.median:.2f}{full}{length}{' ~' if row.looping == row.runs else ''}"


def _headline_words(headline: Headline) -> str:
    ratio = headline.ratio_to_plain
    if ratio is None:
        return f"all {headline.runs} runs loop"
    without = f", {headline.looping} of {headline.runs} runs loop" if headline.looping else ""
    return f"**{ratio.median:.2f}** [{ratio.low:.2f}, {ratio.high:.2f}]{without}"


def _compared(rows: Sequence[BenchRow]) -> str:
    """Over all kinds: the earliest difference, and how many runs are equal."""
    if any(row.equal_runs is None for row in rows):
        return "sampled"
    equal, runs = sum(row.equal_runs or 0 for row in rows), sum(row.runs for row in rows)
    if equal == runs:
        return "equal"
    first = min(row.first_difference for row in rows if row.first_difference is not None)
    return f"differs at {first} ({equal} of {runs} runs equal)"


def _prediction_table(rows: Sequence[BenchRow]) -> str:
    """Predicted and measured speedup, medians over kinds, a row for each of our systems in each cell."""
    lines = []
    for group in _by_system([row for row in rows if row.prediction is not None]):
        terms = [asdict(row.prediction) for row in group if row.prediction is not None]
        measured = median(row.ratio_to_plain.median for row in group)
        predicted = median(row.predicted_ratio or 0.0 for row in group)
        shown = [measured, predicted, *(median(term[key] for term in terms) for key in TERMS)]
        lines.append([group[0].name, where(*_cell(group[0])), *(f"{value:.2f}" for value in shown)])
    title = (
        "Predicted and measured speedup, medians over kinds, including loops. Predicted is S = tau / (gamma c + v + o) "
        "with set-up and prefill (before) added on both sides; tau is the tokens of a round, gamma c, v, o and before "
        "are in units of one plain round, from medians of single parts of the runs:"
    )
    head = ["system", "at", "measured", "predicted", *TERMS.values()]
    return _titled(title, table(head, lines, "ll" + "r" * (2 + len(TERMS))))


def _stages_table(rows: Sequence[BenchRow]) -> str:
    """The time of each stage of a round, medians over kinds."""
    lines = []
    for group in _by_system([row for row in rows if row.stage_ms]):
        stages = (f"{median(row.stage_ms[stage] for row in group):.2f}" for stage in STAGES)
        lines.append([group[0].name, where(*_cell(group[0])), *stages])
    title = "Milliseconds of a round, medians over kinds:"
    return _titled(title, table(["system", "at", *STAGES], lines, "ll" + "r" * len(STAGES)))


def _limit_tables(limit: MemoryLimit, rows: Sequence[BenchRow]) -> str:
    """Who decodes plainly how close to the limit that memory sets, and the cost of more rows."""
    plainly = [row for row in rows if row.name in PLAIN_DECODING and row.batch == 1]
    lines = []
    for group in _by_system(plainly):
        speed = median(row.tokens_per_s for row in group)
        lines.append(
            [group[0].name, where(*_cell(group[0])), f"{speed:.1f}", f"{100 * speed / limit.tokens_per_s:.0f}%"]
        )
    title = (
        f"Plain decoding beside the memory limit. A token reads {limit.weight_bytes / 1e6:.1f} MB of weights and "
        f"{limit.cache_bytes / 1e6:.1f} MB of cache behind {limit.context} tokens; a copy reads and writes "
        f"{limit.copied_per_s / 1e9:.1f} GB/s here, enough for {limit.tokens_per_s:.1f} tokens/s:"
    )
    shares = _titled(title, table(["system", "at", "tokens/s", "of the limit"], lines, "llrr"))
    widths = _titled(
        "v(n), a forward of n rows divided by one of a single row:",
        table(["n", *map(str, limit.verify)], [["v(n)", *(f"{v:.2f}" for v in limit.verify.values())]]),
    )
    return f"{shares}\n\n{widths}"


def _woken_table(times: Sequence[Woken]) -> str:
    """Distinct experts that a verify forward reads, beside uniform routing."""
    of, active = times[0].of, times[0].active
    uniform = [of * (1 - (1 - active / of) ** measured.rows) for measured in times]
    lines = [
        ["counted", *(f"{measured.touched:.1f}" for measured in times)],
        ["uniform routing", *(f"{expected:.1f}" for expected in uniform)],
    ]
    title = f"Distinct experts of a layer in a verify forward of n tokens, of {of} with {active} a token, means:"
    return _titled(title, table(["n", *(str(measured.rows) for measured in times)], lines, "l" + "r" * len(times)))


def _by_system(rows: Sequence[BenchRow]) -> list[list[BenchRow]]:
    groups: dict[Any, list[BenchRow]] = {}
    for row in rows:
        groups.setdefault((_cell(row), row.name), []).append(row)
    return list(groups.values())


def _titled(title: str, rows: str) -> str:
    return f"{title}\n\n{rows}"
