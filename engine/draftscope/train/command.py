"""`draftscope train`: the tokenizer, the target, the draft, these in a row, or the whole family of drafters."""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from draftscope.base.errors import DraftscopeError
from draftscope.models.loading import embedded
from draftscope.models.loading.embedded import FAMILY, Member
from draftscope.train.data import corpus, tokenizer
from draftscope.train.data.corpus import Texts
from draftscope.train.family import Plan, train_family
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
INTERRUPTED = 130  # what a shell reports for a program ended by Ctrl-C
MINUTES = 100.0  # of a target, a draft, or both in a row
DRAFT_SHARE = 1 / 8  # of the minutes, when both models are made
FAMILY_ONLY = ("members", "preset", "sitting", "shards")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `run` reads."""
    parser.add_argument("what", choices=("target", "draft", "tokenizer", "all", "family"))
    parser.add_argument(
        "--corpus",
        type=Path,
        default=os.environ.get("DRAFTSCOPE_CORPUS"),
        help="folder of <domain>.train.txt[.xz] and <domain>.val.txt[.xz]; default: $DRAFTSCOPE_CORPUS",
    )
    parser.add_argument("--out", type=Path, default=Path("assets/models"), help="where model folders go")
    parser.add_argument("--work", type=Path, default=Path(".train"), help="where unfinished runs and caches stay")
    parser.add_argument(
        "--minutes",
        type=float,
        help="time in training steps, interrupted sittings of the same run included (default: 100; 'all' gives the "
        "draft an eighth; 'family' has a time for each member)",
    )
    parser.add_argument("--seed", type=int, default=0, help="order of the text and first weights")
    parser.add_argument(
        "--warm-start",
        type=Path,
        metavar="DIR",
        help="model folder whose weights a new run starts from; another --seed then shows it other text first",
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    _add_family_arguments(parser)


def _add_family_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("family")
    names = ", ".join(member.name for member in FAMILY)
    group.add_argument("--members", metavar="NAMES", help=f"some of them, by commas: {names}")
    group.add_argument("--preset", choices=tuple(PRESETS), help="two cores (default), or a GPU")
    group.add_argument(
        "--sitting",
        type=float,
        metavar="MINUTES",
        help="stop after so long and exit with 130; the same command goes on from there",
    )
    group.add_argument("--shards", type=Path, metavar="DIR", help="also what was finished, as a tar in pieces of 16 MB")


def run(args: argparse.Namespace) -> int:
    """Do what the command line asked for; 130 when a run was interrupted and waits to go on."""
    began = time.monotonic()
    _refuse(args)
    torch.set_num_threads(args.threads)
    if args.what == "tokenizer":
        _train_tokenizer(args)
        return 0
    if args.what == "family":
        return _train_family(args, began)
    minutes = MINUTES if args.minutes is None else args.minutes
    if args.what == "target":
        return _train_target(args, minutes)
    if args.what == "draft":
        return _train_draft(args, minutes)
    return _train_target(args, minutes * (1 - DRAFT_SHARE)) or _train_draft(args, minutes * DRAFT_SHARE)


def _refuse(args: argparse.Namespace) -> None:
    """Say what is wrong before the hours of training, not after."""
    if args.corpus is None:
        raise DraftscopeError("Name the training text: --corpus DIR, or DRAFTSCOPE_CORPUS in the environment.")
    for split in ("train", "val"):
        corpus.domain_files(args.corpus, split)
    for name in ("minutes", "sitting"):
        value = getattr(args, name)
        if value is not None and value <= 0:
            raise DraftscopeError(f"--{name} {value:g} leaves no time to train: give a positive number.")
    for name in FAMILY_ONLY:
        if args.what != "family" and getattr(args, name) is not None:
            raise DraftscopeError(f"--{name} goes with 'family', not with '{args.what}'.")
    if args.warm_start is None:
        return
    if args.what not in ("target", "draft"):
        raise DraftscopeError(f"--warm-start goes with 'target' or 'draft', not with '{args.what}'.")
    if loop.started(args.work / args.what):
        raise DraftscopeError(f"{args.work / args.what} holds a run to go on with: drop --warm-start or move it away.")


def _train_tokenizer(args: argparse.Namespace) -> None:
    if loop.started(args.work / "target"):
        raise DraftscopeError(f"{args.work / 'target'} holds a run that reads the old tokenizer: move it away first.")
    texts = (text for path in corpus.domain_files(args.corpus, "train").values() for text in _sample(path))
    tokenizer.save(tokenizer.train(texts, TARGET.vocabulary), args.work / "tokenizer", TARGET.positions)
    print(f"Tokenizer written to {args.work / 'tokenizer'}.")


def _sample(path: Path) -> Iterator[str]:
    """The first documents of one domain."""
    left = SAMPLE
    for text in corpus.documents(path):
        yield text
        left -= len(text)
        if left <= 0:
            return


def _texts(args: argparse.Namespace, home: Path) -> Texts:
    """The corpus in the tokens of the model in `home`, or of a tokenizer trained on it where there is no model."""
    if not (home / "tokenizer.json").exists():
        home = args.work / "tokenizer"
        if not home.exists():
            _train_tokenizer(args)
    return corpus.read(args.corpus, tokenizer.load(home), args.work / "cache")


def _train_family(args: argparse.Namespace, began: float) -> int:
    names = [] if args.members is None else [name.strip() for name in args.members.split(",")]
    chosen = [embedded.find(name) for name in names] or list(FAMILY)
    plan = Plan(
        members=tuple(sorted(set(chosen), key=FAMILY.index)),
        preset=PRESETS[args.preset or "cpu"],
        corpus=args.corpus,
        out=args.out,
        work=args.work,
        seed=args.seed,
        minutes=args.minutes,
        deadline=math.inf if args.sitting is None else began + args.sitting * 60,
        shards=args.shards,
    )
    plan.preset.place()  # refuses a missing GPU before the text is read
    return 0 if train_family(plan, _texts(args, args.out / embedded.find("target").folder)) else INTERRUPTED


def _first_weights(args: argparse.Namespace, member: Member) -> tuple[Any, int]:
    """The model a run starts from and the tokens already behind it."""
    if args.warm_start is None:
        return first_model(member, args.seed), 0
    return folder.load(args.warm_start), tokens_behind(args.warm_start)


def _train_target(args: argparse.Namespace, minutes: float) -> int:
    member = embedded.find("target")
    model, seen = _first_weights(args, member)
    if args.warm_start is not None:
        tokenizer.save(tokenizer.load(args.warm_start), args.work / "tokenizer", TARGET.positions)
    texts = _texts(args, args.work / "tokenizer")
    budget = loop.Budget(minutes * 60)
    place = args.work / "target"
    progress, done = pretrain.pretrain(model, texts, place, budget, args.seed, seen, loss_of=compiled(next_token_loss))
    return _publish(args, member, pretrain.TARGET, model, texts, progress) if done else _interrupted(progress, place)


def _train_draft(args: argparse.Namespace, minutes: float) -> int:
    member, home = embedded.find("draft"), args.out / embedded.find("target").folder
    target = folder.load(home)
    texts = _texts(args, home)
    draft, seen = _first_weights(args, member)
    teach, place = lesson(target, draft), args.work / "draft"
    budget = loop.Budget(minutes * 60)
    progress, done = distill.distill(
        teach, texts, Places(place, place), budget, args.seed, seen, loss_of=compiled(teach.loss)
    )
    return _publish(args, member, distill.DRAFT, draft, texts, progress) if done else _interrupted(progress, place)


def _interrupted(progress: loop.Progress, place: Path) -> int:
    print(f"Interrupted after step {progress.step}; saved in {place}. The same command goes on from there.")
    return INTERRUPTED


def _publish(
    args: argparse.Namespace, member: Member, recipe: Recipe, model: Any, texts: Texts, progress: loop.Progress
) -> int:
    publish(Finished(member, recipe, args.seed, progress, "", args.corpus, args.out), model, texts)
    return 0
