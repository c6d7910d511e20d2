"""The record of a training run: `training.json`, beside the weights it describes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from draftscope.models.loading.embedded import RECORD
from draftscope.train.fit.evaluate import Agreement, Score
from draftscope.train.publish.figures import Repeats, Trial


@dataclass(frozen=True)
class AnswersRead:
    """What a drafter for any target learned from: its target's answers."""

    prompts: dict[str, int]  # answered ones to train on, by kind of text
    tokens: int  # of the answers to them
    temperatures: tuple[float, ...]
    held_out_tokens: int
    epochs: float


@dataclass(frozen=True, kw_only=True)
class TrainingRecord:
    """Settings and results of a finished run. The model card is written from them."""

    name: str
    kind: str
    target: str  # digest of the weights of the target a drafter was trained for; empty for a target
    target_name: str
    parameters: int
    seed: int
    minutes: float  # spent in steps of this run
    hardware: str
    precision: str  # of the matmuls
    steps: int  # of this run
    tokens_per_step: int
    tokens_seen: int  # in all, including the runs that produced the weights it started from
    rates: dict[str, float]  # peak learning rates
    recipe: str = ""  # digest of everything that determines an embedded model's weights, the training time included
    vocabulary: int | None = None  # of the target's tokens, those that a drafter for any target drafts
    covered: float | None = None  # the share of held-out answers' tokens that it can draft
    started_from: str = ""  # the drafter whose weights this run started from; empty for one from scratch
    before: Agreement | None = None  # of those weights, where `agreement` has "all"
    answers: AnswersRead | None = None  # None for one that was trained on a corpus
    held_out: dict[str, Score] = field(default_factory=dict)  # on held-out text, by domain; empty for a head
    agreement: dict[str, Agreement] = field(default_factory=dict)  # with the target, by kind of text
    repeats: dict[str, Repeats] = field(default_factory=dict)  # in continuations of held-out text; empty for a head
    trials: list[Trial] = field(default_factory=list)  # in the real loop, on held-out prompts

    def write(self, folder: Path) -> None:
        """Writes the record to a model folder."""
        (folder / RECORD).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


def read_record(folder: Path) -> dict[str, Any]:
    """The record in a model folder, whatever version of this program wrote it; empty if there is none."""
    path = folder / RECORD
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return record


def tokens_behind(folder: Path) -> int:
    """The number of tokens the weights in a model folder were trained on; 0 if not recorded."""
    record = read_record(folder)
    return int(record.get("tokens_seen") or record.get("steps", 0) * record.get("tokens_per_step", 0))
