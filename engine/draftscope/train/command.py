"""What `draftscope train` does: the tokenizer, target and draft, alone or in a row, or the whole family of drafters."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from draftscope.base.errors import DraftscopeError
from draftscope.models.loading import embedded
from draftscope.models.loading.embedded import FAMILY, Member
from draftscope.train.data import corpus, tokenizer
from draftscope.train.data.corpus import Texts
from draftscope.train.family import FamilyPlan, train_family
from draftscope.train.loop import distill, loop, pretrain
from draftscope.train.loop.compiling import compiled
from draftscope.train.loop.distill import Places
from draftscope.train.loop.pretrain import Recipe, next_token_loss
from draftscope.train.publish.finish import Finished, publish
from draftscope.train.publish.training_record import tokens_behind
from draftscope.train.students import folder
from draftscope.train.students.recipes import PRESETS
from draftscope.train.students.shapes import TARGET
from draftscope.train.students.students import first_model, lesson

SAMPLE = 4_000_000  # characters of each domain that the tokenizer learns from
MINUTES = 100.0  # of a target, a draft, or both in a row
DRAFT_SHARE = 1 / 8  # of the minutes, when both models are made
What = Literal["target", "draft", "tokenizer", "all", "family"]
FAMILY_ONLY = ("members", "preset", "sitting", "shards")


@dataclass(frozen=True)
class Training:
    """What is to be trained, and where. Without `minutes` each kind of training has a time of its own.

    The last four go with 'family' only: `members` by name, the name of a preset, the minutes after which to stop, and
    a folder for what was finished, as a tar in pieces.
    """

    what: What
    corpus: Path
    out: Path
    work: Path
    minutes: float | None = None  # time in training steps, over all sittings of the same run
    seed: int = 0  # of text order and first weights
    warm_start: Path | None = None  # model folder whose weights a new run starts from
    threads: int = 1
    members: tuple[str, ...] | None = None
    preset: str | None = None
    sitting: float | None = None
    shards: Path | None = None


def run(asked: Training) -> bool:
    """Trains what was asked for. False when it was interrupted: the same call continues from there.

    Raises `DraftscopeError` for values that do not go together, a corpus that cannot be read, and a missing GPU.
    """
    began = time.monotonic()
    _refuse(asked)
    torch.set_num_threads(asked.threads)
    if asked.what == "tokenizer":
        _train_tokenizer(asked)
        return True
    if asked.what == "family":
        return _train_family(asked, began)
    minutes = MINUTES if asked.minutes is None else asked.minutes
    if asked.what == "target":
        return _train_target(asked, minutes)
    if asked.what == "draft":
        return _train_draft(asked, minutes)
    return _train_target(asked, minutes * (1 - DRAFT_SHARE)) and _train_draft(asked, minutes * DRAFT_SHARE)


def _refuse(asked: Training) -> None:
    """Raises before the hours of training, not after."""
    for split in ("train", "val"):
        corpus.domain_files(asked.corpus, split)
    for name, value in (("minutes", asked.minutes), ("sitting", asked.sitting)):
        if value is not None and value <= 0:
            raise DraftscopeError(f"--{name} {value:g} leaves no time to train: give a positive number.")
    for name in FAMILY_ONLY:
        if asked.what != "family" and getattr(asked, name) is not None:
            raise DraftscopeError(f"--{name} goes with 'family', not with '{asked.what}'.")
    if asked.warm_start is None:
        return
    if asked.what not in ("target", "draft"):
        raise DraftscopeError(f"--warm-start goes with 'target' or 'draft', not with '{asked.what}'.")
    if loop.started(asked.work / asked.what):
        raise DraftscopeError(f"{asked.work / asked.what} holds an unfinished run: drop --warm-start or move it away.")


def _train_tokenizer(asked: Training) -> None:
    if loop.started(asked.work / "target"):
        raise DraftscopeError(f"{asked.work / 'target'} holds a run that reads the old tokenizer: move it away first.")
    texts = (text for path in corpus.domain_files(asked.corpus, "train").values() for text in _sample(path))
    tokenizer.save(tokenizer.train(texts, TARGET.vocabulary), asked.work / "tokenizer", TARGET.positions)
    print(f"Tokenizer written to {asked.work / 'tokenizer'}.")


def _sample(path: Path) -> Iterator[str]:
    """The first documents of one domain."""
    left = SAMPLE
    for text in corpus.documents(path):
        yield text
        left -= len(text)
        if left <= 0:
            return


def _texts(asked: Training, home: Path) -> Texts:
    """The corpus in the tokens of the model in `home`, or of a tokenizer trained on it where there is no model."""
    if not (home / "tokenizer.json").exists():
        home = asked.work / "tokenizer"
        if not home.exists():
            _train_tokenizer(asked)
    return corpus.read(asked.corpus, tokenizer.load(home), asked.work / "cache")


def _train_family(asked: Training, began: float) -> bool:
    chosen = [embedded.find(name) for name in asked.members or ()] or list(FAMILY)
    plan = FamilyPlan(
        members=tuple(sorted(set(chosen), key=FAMILY.index)),
        preset=PRESETS[asked.preset or "cpu"],
        corpus=asked.corpus,
        out=asked.out,
        work=asked.work,
        seed=asked.seed,
        minutes=asked.minutes,
        deadline=math.inf if asked.sitting is None else began + asked.sitting * 60,
        shards=asked.shards,
    )
    plan.preset.place()  # refuses a missing GPU before the text is read
    return train_family(plan, _texts(asked, asked.out / embedded.find("target").folder))


def _first_weights(asked: Training, member: Member) -> tuple[Any, int]:
    """The model a run starts from and the tokens already behind it."""
    if asked.warm_start is None:
        return first_model(member, asked.seed), 0
    return folder.load(asked.warm_start), tokens_behind(asked.warm_start)


def _train_target(asked: Training, minutes: float) -> bool:
    member = embedded.find("target")
    model, seen = _first_weights(asked, member)
    if asked.warm_start is not None:
        tokenizer.save(tokenizer.load(asked.warm_start), asked.work / "tokenizer", TARGET.positions)
    texts = _texts(asked, asked.work / "tokenizer")
    budget = loop.Budget(minutes * 60)
    place = asked.work / "target"
    progress, done = pretrain.pretrain(model, texts, place, budget, asked.seed, seen, loss_of=compiled(next_token_loss))
    return _publish(asked, member, pretrain.TARGET, model, texts, progress) if done else _interrupted(progress, place)


def _train_draft(asked: Training, minutes: float) -> bool:
    member, home = embedded.find("draft"), asked.out / embedded.find("target").folder
    target = folder.load(home)
    texts = _texts(asked, home)
    draft, seen = _first_weights(asked, member)
    teach, place = lesson(target, draft), asked.work / "draft"
    budget = loop.Budget(minutes * 60)
    progress, done = distill.distill(
        teach, texts, Places(place, place), budget, asked.seed, seen, loss_of=compiled(teach.loss)
    )
    return _publish(asked, member, distill.DRAFT, draft, texts, progress) if done else _interrupted(progress, place)


def _interrupted(progress: loop.Progress, place: Path) -> bool:
    print(f"Interrupted after step {progress.step}; saved in {place}. The same command goes on from there.")
    return False


def _publish(
    asked: Training, member: Member, recipe: Recipe, model: Any, texts: Texts, progress: loop.Progress
) -> bool:
    publish(Finished(member, recipe, asked.seed, progress, "", asked.corpus, asked.out), model, texts)
    return True
