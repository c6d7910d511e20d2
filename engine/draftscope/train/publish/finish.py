"""Publishes a finished run: the model folder, its measurements and its card."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from typing import Any

import torch

from draftscope.models.heads import Head, SharedWeights, load_head, save_head
from draftscope.models.loading import embedded
from draftscope.models.loading.embedded import Member
from draftscope.train.data.corpus import Texts
from draftscope.train.data.credits import sources
from draftscope.train.loop.evaluate import agreements, scores
from draftscope.train.loop.loop import Progress
from draftscope.train.loop.precision import precision
from draftscope.train.loop.pretrain import Recipe
from draftscope.train.publish import card
from draftscope.train.publish.repeats import repeats
from draftscope.train.publish.training_record import Record, write
from draftscope.train.students import folder
from draftscope.train.students.shapes import parameters
from draftscope.train.students.students import lesson

ROWS = 64  # held-out rows of 512 tokens per domain, at most, for the published figures


@dataclass(frozen=True)
class Finished:
    """A finished run. `stamp` is the digest of everything that determined it."""

    member: Member
    recipe: Recipe
    seed: int
    progress: Progress
    stamp: str
    corpus: Path
    out: Path  # where members' folders are

    @property
    def place(self) -> Path:
        return self.out / self.member.folder

    @property
    def home(self) -> Path | None:
        """Its target's folder."""
        return self.out / embedded.find(self.member.of).folder if self.member.of else None


def publish(run: Finished, network: Any, texts: Texts) -> None:
    """Writes the member's folder from the trained `network` and prints its figures."""
    device = next(network.parameters()).device
    target = None if run.home is None else folder.load(run.home).to(device, precision(device.type))
    saved = _saved(run, network, target, texts)
    record = _record(run, saved, target, texts)
    write(record, run.place)
    specimens = [] if run.member.is_head else card.specimens(saved, texts, run.seed)
    text = card.card(run.member, saved, record, run.recipe, sources(run.corpus), specimens)
    (run.place / "README.md").write_text(text, encoding="utf-8")
    if target is None:
        for credits in run.corpus.glob("ATTRIBUTION*"):
            copyfile(credits, run.place / credits.name)
    _print(record, run.place)


def _saved(run: Finished, network: Any, target: Any, texts: Texts) -> Any:
    """Saves the network in bf16 and loads it again, as users will."""
    if not isinstance(network, Head):
        return folder.save(network, texts.tokenizer, run.place)
    save_head(network.to(torch.bfloat16), run.place, embedded.find(run.member.of).title)
    return load_head(run.member.kind, run.place, SharedWeights.of(target))


def _record(run: Finished, network: Any, target: Any, texts: Texts) -> Record:
    progress = run.progress
    return Record(
        name=run.member.title,
        parameters=parameters(network),
        seed=run.seed,
        minutes=progress.spent / 60,
        hardware=hardware(next(network.parameters()).device),
        precision=str(precision(next(network.parameters()).device.type)).removeprefix("torch."),
        steps=progress.step,
        tokens_per_step=run.recipe.tokens_per_step,
        tokens_seen=progress.tokens,
        recipe=run.stamp,
        target="" if run.home is None else embedded.digest(run.home),
        held_out={} if run.member.is_head else scores(network, texts.val, ROWS, texts.tokenizer),
        agreement={} if target is None else agreements(lesson(target, network), texts.val, ROWS),
        repeats={} if run.member.is_head else repeats(network, texts.val, run.seed),
    )


def hardware(device: torch.device) -> str:
    """The hardware a run used, in words."""
    if device.type == "cuda":
        return f"one {torch.cuda.get_device_name(device)}"
    return f"{torch.get_num_threads()} of {os.cpu_count()} processor cores"


def _print(record: Record, place: Path) -> None:
    print(f"{record.name}: {record.tokens_seen / 1e6:.1f}M tokens in {record.minutes:.1f} minutes, written to {place}.")
    for domain, score in record.held_out.items():
        print(f"  {domain:12} {score.nats_per_token:.3f} nats per token, {score.bits_per_byte:.3f} bits per byte")
    for domain, found in record.agreement.items():
        print(f"  {domain:12} alpha at T=1 by depth {found.shown()}")
