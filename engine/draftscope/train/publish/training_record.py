"""What one training run was and came to: `training.json`, beside the weights it describes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from draftscope.models.loading.embedded import RECORD
from draftscope.train.publish.evaluate import Agreement, Score
from draftscope.train.publish.repeats import Repeats


@dataclass(frozen=True)
class Record:
    """Figures of a finished run; the model card is written from them."""

    name: str
    parameters: int
    seed: int
    minutes: float  # spent in steps, this run
    hardware: str
    precision: str  # of the products
    steps: int  # of this run
    tokens_per_step: int
    tokens_seen: int  # behind these weights, the runs they were warm-started from included
    recipe: str  # digest of what decides these weights beside time, and of the time
    target: str  # digest of the target's weights that a drafter was trained for; empty for a target
    held_out: dict[str, Score]  # bf16 weights on held-out text, by domain; empty for a head
    agreement: dict[str, Agreement]  # with the target, by domain; empty for a target
    repeats: dict[str, Repeats]  # in its own continuations of held-out text, by domain; empty for a head


def write(record: Record, folder: Path) -> None:
    (folder / RECORD).write_text(json.dumps(asdict(record), indent=2) + "\n", encoding="utf-8")


def read(folder: Path) -> dict[str, Any]:
    """The record in a member's folder; empty where nobody wrote one."""
    path = folder / RECORD
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def tokens_behind(folder: Path) -> int:
    """Tokens the weights in a model folder have seen; 0 where nobody wrote it down."""
    return int(read(folder).get("tokens_seen", 0))
