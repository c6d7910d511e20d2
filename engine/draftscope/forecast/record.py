"""A row of the published record as a question to the forecast, or a sentence why it is none."""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from draftscope.base.errors import DraftscopeError, read_bytes, reason
from draftscope.forecast.architecture import Architecture, find_architecture
from draftscope.forecast.cost import Hardware, spread_over
from draftscope.forecast.drafter_forwards import DraftPlan, find_kind, plan_drafting
from draftscope.forecast.hardware_tables import find_card, find_engine

COLUMNS = (
    "id", "source", "engine", "target_model", "target_params_B", "dtype_quant", "drafter_kind", "draft_params_B",
    "gamma_or_tree", "dataset", "gpu", "n_gpus_tp", "batch_or_concurrency_or_qps", "prompt_output_len", "tau",
    "accept_rate", "plain_tok_s_or_TPOT_ms", "spec_tok_s_or_TPOT_ms", "speedup_stated", "perf_unit", "row_class",
)  # fmt: skip
UNSTATED = "H100"  # the card of most rows that name one of a server
CONTEXTS = (("cnn|wiki|summ", 1000), ("rag", 2000), ("", 300))  # tokens behind a step, by the kind of prompts


@dataclass(frozen=True)
class PublishedRow:
    """A measurement: what was run, and the speedup that was published."""

    name: str
    source: str
    engine: str
    gpu: str  # empty: the row names none
    drafter: str
    dataset: str
    row_class: str
    target: Architecture
    drafting: DraftPlan
    machine: Hardware
    sequences: int
    context: float
    tau: float | None
    speedup: float


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file with the columns of `COLUMNS`; a DraftscopeError if it is none."""
    try:
        rows = list(csv.DictReader(read_bytes(path).decode("utf-8").splitlines()))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DraftscopeError(f"'{path}' cannot be read as CSV ({reason(error)}); give another file.") from None
    missing = [column for column in COLUMNS if not rows or column not in rows[0]]
    if missing:
        raise DraftscopeError(f"'{path}' has no column {', '.join(missing)}; give a file of published speedups.")
    return [{key: value or "" for key, value in row.items() if isinstance(key, str)} for row in rows]


def in_training_half(source: str) -> bool:
    """Whether constants may be chosen on rows of this source: by a hash of its paper or repository."""
    return hashlib.sha256(source.split(" ")[0].encode()).digest()[0] % 2 == 1


def read_row(row: Mapping[str, str]) -> PublishedRow | str:
    """What a row asks, or why it cannot be asked."""
    if row["row_class"] in ("other", "confounded", "suspect", "lossy") or row["row_class"].startswith("spec_only"):
        return f"{row['row_class']}: no clean ratio to plain decoding"
    speedup = _speedup(row)
    if not speedup:
        return "no speedup"
    if not row["target_model"]:
        return "no target"
    if not row["drafter_kind"]:
        return "no drafter"
    sequences = _number(row["batch_or_concurrency_or_qps"])
    if "qps" in row["batch_or_concurrency_or_qps"].lower() or "req/s" in row["batch_or_concurrency_or_qps"]:
        return "a request rate instead of a batch"
    try:
        return _question(row, speedup, max(1, round(sequences or 1)))
    except DraftscopeError as error:
        return re.sub(r"'.*?'", "", str(error)).split(";")[0].strip()


def _question(row: Mapping[str, str], speedup: float, sequences: int) -> PublishedRow:
    target = find_architecture(row["target_model"], _number(row["target_params_B"]))
    target = target.quantised(f"{row['dtype_quant']} {row['gpu']}") if row["dtype_quant"] else target
    engine = find_engine(row["engine"])
    if engine.name == "llama.cpp" and not row["dtype_quant"]:
        target = target.quantised("q4")  # what consumer cards run
    kind = find_kind(row["drafter_kind"])
    size = _number(row["draft_params_B"]) or _number((re.search(r"([\d.]+)B", row["drafter_kind"]) or [""])[0])
    draft = find_architecture(f"{size}B", size) if size and kind.shape in ("model", "parallel") else None
    drafting = plan_drafting(kind, target, row["gamma_or_tree"], draft, engine.trees)
    context = _context(row)
    said, count = row["n_gpus_tp"], _number(row["n_gpus_tp"])
    stages = True if "PP" in said or "layer" in said else False if "tensor" in said else None
    card = find_card(row["gpu"] or UNSTATED)
    machine = spread_over(card, engine, target, round(count) if count else None, stages)
    return PublishedRow(
        row["id"], row["source"], engine.name, machine.card.name if row["gpu"] else "", kind.name, row["dataset"],
        row["row_class"], target, drafting, machine, sequences, context, published_tau(row, drafting), speedup,
    )  # fmt: skip


def _speedup(row: Mapping[str, str]) -> float | None:
    stated = row["speedup_stated"]
    if "slowdown" in stated:
        return 1 / (_number(stated) or 1)
    if (value := _number(stated)) is not None:
        return value
    plain, fast = _number(row["plain_tok_s_or_TPOT_ms"]), _number(row["spec_tok_s_or_TPOT_ms"])
    if not plain or not fast:
        return None
    return plain / fast if "ms" in row["perf_unit"] or "lower" in row["perf_unit"] else fast / plain


def published_tau(row: Mapping[str, str], drafting: DraftPlan) -> float | None:
    """Tokens a round: published, or from the share of drafted tokens that were accepted."""
    if (tau := _number(row["tau"])) is not None and tau >= 1:
        return tau
    rate = _number(row["accept_rate"])
    if rate is None or not 0 < rate <= 1:
        return None
    if row["gamma_or_tree"]:
        return 1 + rate * drafting.depth
    block = drafting.kind.name == "dflash" and rate < 1  # dflash-mlx gives the share of the output that was drafted
    return 1 / (1 - rate) if block else None


def _context(row: Mapping[str, str]) -> float:
    match = re.match(r"~?(\d+)(k?)/~?(\d*)(k?)", row["prompt_output_len"].lower())
    if match:
        scale = {"k": 1024, "": 1}
        return int(match[1]) * scale[match[2]] + int(match[3] or 0) * scale[match[4]] / 2
    dataset = row["dataset"].lower()
    return float(next(tokens for words, tokens in CONTEXTS if re.search(words, dataset)))


def _number(text: str) -> float | None:
    """The number in a text; the middle of a range such as '0.52-0.95'."""
    match = re.search(r"(\d*\.?\d+)(?:\s*[-–]\s*(\d*\.?\d+))?", text or "")
    if match is None:
        return None
    low = float(match[1])
    return (low + float(match[2])) / 2 if match[2] else low
