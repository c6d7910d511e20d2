"""`draftscope adapt`: fine-tune a drafter on a text of your own, and say what it gained."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from draftscope.base.errors import DraftscopeError
from draftscope.models.loading.embedded import FAMILY

INTERRUPTED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `run` reads."""
    names = [member.name for member in FAMILY if member.of]
    parser.add_argument("--drafter", required=True, metavar="NAME", help=f"one of {', '.join(names)}")
    parser.add_argument(
        "--text", required=True, type=Path, metavar="FILE", help="plain text, or .xz; its last tenth is held out"
    )
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="a new folder for the drafter")
    parser.add_argument("--minutes", type=float, default=5.0, help="time in training steps (default: 5)")
    parser.add_argument("--work", type=Path, default=Path(".train"), help="where an unfinished run stays")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)


def run(args: argparse.Namespace) -> int:
    """Adapts and prints acceptance and speed before and after; 130 when it was interrupted and waits to go on."""
    if args.minutes <= 0:
        raise DraftscopeError(f"--minutes {args.minutes:g} leaves no time to train: give a positive number.")
    import torch

    from draftscope.train.adapt import adapt

    torch.set_num_threads(args.threads)
    found = adapt(args.drafter, args.text, args.out, args.work, args.minutes)
    print(f"{found.progress.tokens:,} tokens read in {found.progress.spent / 60:.1f} minutes.")
    print(f"acceptance at T=1 on the part held out ({found.before.tokens:,} tokens), sum of min(p, q) by depth:")
    for name, one in (("before", found.before), ("after", found.after)):
        print(f"  {name:6} {'  '.join(f'{alpha:.3f}' for alpha in one.alpha)}")
    if found.speedups is None:
        print("Interrupted; the same command goes on from here.")
        return INTERRUPTED
    print("tokens/s of a chain of 4 there, T=1, divided by plain's in the same repeat (median, 95% interval):")
    for name, ratio in zip(("before", "after"), found.speedups, strict=True):
        print(f"  {name:6} {ratio.median:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]")
    gained = sum(found.after.alpha) - sum(found.before.alpha)
    print(f"{'Gained' if gained > 0 else 'Nothing gained'}; written to {found.folder}.")
    return 0
