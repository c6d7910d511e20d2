"""`draftscope regret`: policies against the best fixed setting in hindsight, by kind of text; as JSON and Markdown."""

from __future__ import annotations

import argparse
import sys

from draftscope.measure.regret import regret_command
from draftscope_app.cli.commands import options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    regret_command.add_arguments(parser)
    options.add_loading(parser)


def run(args: argparse.Namespace) -> int:
    regret_command.run(args, lambda *_: options.load(args))
    print(f"draftscope: wrote regret.json, regret.md to {args.out}.", file=sys.stderr)
    return 0
