"""Publishes a trained model: the folder of its weights, its card, and the record of its training, `training.json`."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from shutil import copyfile, rmtree
from typing import Any

import torch

from draftscope.models.heads import Head, save_head
from draftscope.models.loading.embedded import RECORD
from draftscope.train.fit.evaluate import Agreement, Score
from draftscope.train.fit.fit import Fitted
from draftscope.train.fit.numerics import precision
from draftscope.train.publish.figures import Repeats, Trial
from draftscope.train.students.shapes import parameters

PIECE = 16 * 10**6  # bytes


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


Measure = Callable[[TrainingRecord, Path], TrainingRecord]  # completes the record of the weights in a folder
SaveTokenizer = Callable[[Path], object]


@dataclass(frozen=True)
class Publication:
    """What a trained model is called, whom it drafts for, and the folder that it is written to.

    `target` is the digest of its target's weights and `target_name` the target's name; both are empty for a target.
    `credits` is the folder of the text it was trained on, whose ATTRIBUTION files are copied.
    """

    name: str
    kind: str
    target: str
    target_name: str
    seed: int
    out: Path
    save_tokenizer: SaveTokenizer
    credits: Path | None = None


def publish(
    fitted: Fitted, publication: Publication, measure: Measure, card: Callable[[TrainingRecord], str] | None = None
) -> TrainingRecord:
    """Writes the model's folder and returns its record. `card` writes the README.md, if there is to be one.

    The student keeps the bf16 weights as they are published, so these are what is measured. Everything is written
    beside the folder first, so that measuring can be interrupted and begun again.
    """
    folder = publication.out.with_name(f"{publication.out.name}.unfinished")
    rmtree(folder, ignore_errors=True)
    save_student(fitted.lesson.student, publication, folder)
    record = measure(_record(fitted, publication), folder)
    record.write(folder)
    if card is not None:
        (folder / "README.md").write_text(card(record), encoding="utf-8")
    for path in publication.credits.glob("ATTRIBUTION*") if publication.credits is not None else ():
        copyfile(path, folder / path.name)
    _move(folder, publication.out)
    return record


def save_student(student: Any, publication: Publication, folder: Path) -> None:
    """Saves the weights in a published format in bf16, and rounds the student's to them; beside a model its tokenizer.

    Buffers, such as the frequencies of rotary embeddings, are not in the files and stay as exact as they were.
    """
    buffers = {name: buffer.clone() for name, buffer in student.named_buffers()}
    student.to(torch.bfloat16)
    if isinstance(student, Head):
        save_head(student, folder, publication.target_name)
    else:
        student.save_pretrained(folder)
        publication.save_tokenizer(folder)
    student.to(torch.float32)
    for name, buffer in student.named_buffers():
        buffer.copy_(buffers[name])


def _record(fitted: Fitted, publication: Publication) -> TrainingRecord:
    progress, device = fitted.progress, fitted.lesson.device
    return TrainingRecord(
        name=publication.name,
        kind=publication.kind,
        target=publication.target,
        target_name=publication.target_name,
        parameters=parameters(fitted.lesson.student),
        seed=publication.seed,
        minutes=progress.spent / 60,
        hardware=hardware(device),
        precision=str(precision(device.type)).removeprefix("torch."),
        steps=progress.step,
        tokens_per_step=fitted.recipe.tokens_per_step,
        tokens_seen=progress.tokens,
        rates=asdict(fitted.recipe.rates),
    )


def hardware(device: torch.device) -> str:
    """The hardware a run used, in words."""
    if device.type == "cuda":
        return f"one {torch.cuda.get_device_name(device)}"
    return f"{torch.get_num_threads()} of {os.cpu_count()} processor cores"


def _move(folder: Path, out: Path) -> None:
    """Moves all files to `out`, the record first: by it a command knows a folder that it made."""
    out.mkdir(parents=True, exist_ok=True)
    for path in sorted(folder.iterdir(), key=lambda path: path.name != RECORD):
        path.replace(out / path.name)
    folder.rmdir()


def print_figures(record: TrainingRecord, out: Path) -> None:
    """The record in a few lines."""
    print(
        f"{record.name}: {record.tokens_seen / 1e6:.1f}M tokens, {record.steps:,} steps in {record.minutes:.1f} "
        f"minutes, written to '{out}'."
    )
    for kind, score in record.held_out.items():
        print(f"  {kind:12} {score.nats_per_token:.3f} nats per token, {score.bits_per_byte:.3f} bits per byte")
    before = {"before": record.before} if record.before is not None else {}
    for kind, agreement in (before | record.agreement).items():
        print(f"  {kind:12} alpha at T=1 by depth {agreement.alphas}, greedy {agreement.greedy[0]:.2f}")
    for trial in record.trials:
        print(
            f"  T={trial.temperature:g}, gamma {trial.gamma}: tau {trial.tau:.2f}, speed {trial.ratio.median:.2f}, "
            f"c {trial.c:.3f} ({trial.prompts} prompts)"
        )


def pack(folders: Sequence[Path], into: Path, piece: int = PIECE) -> None:
    """Writes the folders to `into` as NAME.tar.00, NAME.tar.01, ... of `piece` bytes. NAME is that of the first.

    `cat NAME.tar.* | tar x` unpacks them.
    """
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        for folder in folders:
            tar.add(folder, arcname=folder.name)
    into.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, whole.getbuffer().nbytes, piece)):
        (into / f"{folders[0].name}.tar.{number:02}").write_bytes(whole.getbuffer()[start : start + piece])
