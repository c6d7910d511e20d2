"""What one training run was and came to: `training.json`, beside the weights it describes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from draftscope.train.evaluate import Agreement, Score

FILE = "training.json"


@dataclass(frozen=True)
class Record:
    """Figures of a finished run; the model card is written from them."""

    name: str
    parameters: int
    seed: int
    minutes: float  # spent in steps, this run
    threads: int
    steps: int  # of this run
    tokens_per_step: int
    tokens_seen: int  # behind these weights, the runs they were warm-started from included
    held_out: dict[str, Score]  # bf16 weights on held-out text, by domain
    agreement: dict[str, Agreement]  # with the target, by domain; empty for the target itself


def write(record: Record, folder: Path) -> None:
    (folder / FILE).write_text(json.dumps(asdict(record), indent=2) + "\n", encoding="utf-8")


def tokens_behind(folder: Path) -> int:
    """Tokens the weights in a model folder have seen; 0 where nobody wrote it down."""
    path = folder / FILE
    return int(json.loads(path.read_text(encoding="utf-8"))["tokens_seen"]) if path.exists() else 0
