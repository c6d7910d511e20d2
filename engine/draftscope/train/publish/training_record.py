"""The record of a training run: `training.json`, beside the weights it describes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from draftscope.models.loading.embedded import RECORD
from draftscope.train.loop.evaluate import Agreement, Score
from draftscope.train.publish.repeats import Repeats


@dataclass(frozen=True)
class Record:
    """Settings and results of a finished run. The model card is written from them."""

    name: str
    parameters: int
    seed: int
    minutes: float  # spent in steps of this run
    hardware: str
    precision: str  # of the matmuls
    steps: int  # of this run
    tokens_per_step: int
    tokens_seen: int  # in all, including the runs that produced the weights it started from
    recipe: str  # digest of everything that determines these weights, including the training time
    target: str  # digest of the weights of the target a drafter was trained for; empty for a target
    held_out: dict[str, Score]  # bf16 weights on held-out text, by domain; empty for a head
    agreement: dict[str, Agreement]  # with the target, by domain; empty for a target
    repeats: dict[str, Repeats]  # in its continuations of held-out text, by domain; empty for a head


def write(record: Record, folder: Path) -> None:
    (folder / RECORD).write_text(json.dumps(asdict(record), indent=2) + "\n", encoding="utf-8")


def read(folder: Path) -> dict[str, Any]:
    """The record in a model folder; empty if there is none."""
    path = folder / RECORD
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def tokens_behind(folder: Path) -> int:
    """The number of tokens the weights in a model folder were trained on; 0 if not recorded."""
    return int(read(folder).get("tokens_seen", 0))
