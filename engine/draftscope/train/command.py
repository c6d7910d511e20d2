"""`draftscope train`: the tokenizer, the target, the draft, or all of them in a row."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from shutil import copyfile

import torch
from transformers import LlamaForCausalLM

from draftscope.errors import DraftscopeError
from draftscope.train import card, corpus, folder, loop, tokenizer
from draftscope.train.card import specimens
from draftscope.train.compiled import compiled
from draftscope.train.corpus import Texts
from draftscope.train.credits import sources
from draftscope.train.distill import TOKENS_PER_STEP as DRAFT_TOKENS_PER_STEP
from draftscope.train.distill import Pair, distill, forward_kl
from draftscope.train.evaluate import Agreement, agreements, scores
from draftscope.train.pretrain import TOKENS_PER_STEP, next_token_loss, pretrain
from draftscope.train.record import Record, tokens_behind, write
from draftscope.train.shapes import DRAFT, TARGET, Shape, build, parameters

TARGET_NAME, DRAFT_NAME = "Llama-Draftscope-15M", "Llama-Draftscope-Draft-1M"
SAMPLE = 4_000_000  # characters of each domain that the tokenizer learns from
ROWS = 64  # held-out rows of 512 tokens per domain, at most, in the final figures
INTERRUPTED = 130  # what a shell reports for a program ended by Ctrl-C
DRAFT_SHARE = 1 / 8  # of the minutes, when both models are made


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `run` reads."""
    parser.add_argument("what", choices=("target", "draft", "tokenizer", "all"))
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
        default=100.0,
        help="time in training steps, interrupted sittings of the same run included; 'all' gives the draft an eighth",
    )
    parser.add_argument("--seed", type=int, default=0, help="order of the text and first weights")
    parser.add_argument(
        "--warm-start",
        type=Path,
        metavar="DIR",
        help="model folder whose weights a new run starts from; another --seed then shows it other text first",
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)


def run(args: argparse.Namespace) -> int:
    """Do what the command line asked for; 130 when a run was interrupted and waits to go on."""
    _refuse(args)
    torch.set_num_threads(args.threads)
    if args.what == "tokenizer":
        _train_tokenizer(args)
        return 0
    if args.what == "target":
        return _train_target(args, args.minutes)
    if args.what == "draft":
        return _train_draft(args, args.minutes)
    return _train_target(args, args.minutes * (1 - DRAFT_SHARE)) or _train_draft(args, args.minutes * DRAFT_SHARE)


def _refuse(args: argparse.Namespace) -> None:
    """Say what is wrong before the hours of training, not after."""
    if args.corpus is None:
        raise DraftscopeError("Name the training text: --corpus DIR, or DRAFTSCOPE_CORPUS in the environment.")
    for split in ("train", "val"):
        corpus.domain_files(args.corpus, split)
    if args.minutes <= 0:
        raise DraftscopeError(f"--minutes {args.minutes:g} leaves no time to train: give a positive number.")
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


def _first_weights(args: argparse.Namespace, shape: Shape) -> tuple[LlamaForCausalLM, int]:
    """The model a run starts from and the tokens already behind it."""
    if args.warm_start is None:
        return build(shape, args.seed), 0
    return folder.load(args.warm_start), tokens_behind(args.warm_start)


def _train_target(args: argparse.Namespace, minutes: float) -> int:
    model, seen = _first_weights(args, TARGET)
    if args.warm_start is not None:
        tokenizer.save(tokenizer.load(args.warm_start), args.work / "tokenizer", TARGET.positions)
    elif not (args.work / "tokenizer").exists():
        _train_tokenizer(args)
    texts = corpus.read(args.corpus, tokenizer.load(args.work / "tokenizer"), args.work / "cache")
    progress, done = pretrain(
        model, texts, args.work / "target", minutes * 60, args.seed, seen, compiled(next_token_loss)
    )
    if not done:
        return _interrupted(progress, args.work / "target")
    out = args.out / TARGET_NAME.lower()
    model = folder.save(model, texts.tokenizer, out)
    record = _record(args, model, TARGET_NAME, texts, progress, TOKENS_PER_STEP, {})
    _describe(out, record, card.target_card(model, record, sources(args.corpus), specimens(model, texts, args.seed)))
    for credits in args.corpus.glob("ATTRIBUTION*"):
        copyfile(credits, out / credits.name)
    return 0


def _train_draft(args: argparse.Namespace, minutes: float) -> int:
    home = args.out / TARGET_NAME.lower()
    target = folder.load(home)
    texts = corpus.read(args.corpus, tokenizer.load(home), args.work / "cache")
    draft, seen = _first_weights(args, DRAFT)
    progress, done = distill(
        Pair(target, draft), texts, args.work / "draft", minutes * 60, args.seed, seen, compiled(forward_kl)
    )
    if not done:
        return _interrupted(progress, args.work / "draft")
    out = args.out / DRAFT_NAME.lower()
    draft = folder.save(draft, texts.tokenizer, out)
    found = agreements(target.to(torch.bfloat16), draft, texts.val, ROWS)
    record = _record(args, draft, DRAFT_NAME, texts, progress, DRAFT_TOKENS_PER_STEP, found)
    _describe(out, record, card.draft_card(draft, record, sources(args.corpus), specimens(draft, texts, args.seed)))
    return 0


def _interrupted(progress: loop.Progress, place: Path) -> int:
    print(f"Interrupted after step {progress.step}; saved in {place}. The same command goes on from there.")
    return INTERRUPTED


def _record(
    args: argparse.Namespace,
    model: LlamaForCausalLM,
    name: str,
    texts: Texts,
    progress: loop.Progress,
    tokens_per_step: int,
    agreement: dict[str, Agreement],
) -> Record:
    return Record(
        name=name,
        parameters=parameters(model),
        seed=args.seed,
        minutes=progress.spent / 60,
        threads=args.threads,
        steps=progress.step,
        tokens_per_step=tokens_per_step,
        tokens_seen=progress.tokens,
        held_out=scores(model, texts.val, ROWS, texts.tokenizer),
        agreement=agreement,
    )


def _describe(out: Path, record: Record, text: str) -> None:
    """Leave the figures and the card beside the weights, and print the figures."""
    write(record, out)
    (out / "README.md").write_text(text, encoding="utf-8")
    print(f"{record.name}: {record.tokens_seen / 1e6:.1f}M tokens in {record.minutes:.0f} minutes, written to {out}.")
    for domain, score in record.held_out.items():
        print(f"  {domain:12} {score.nats_per_token:.3f} nats per token, {score.bits_per_byte:.3f} bits per byte")
    for domain, found in record.agreement.items():
        print(f"  {domain:12} alpha {found.alpha:.3f} at T=1, same most likely token {found.greedy:.3f}")
