"""`draftscope drafters`: every drafter, whether its output is exactly the target's, and whether it can run here."""

from __future__ import annotations

import argparse
import json

from draftscope_app.cli.commands import options

FIELDS = ("name", "exact", "available", "why_not", "paper")  # the contract of --json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print a JSON list")
    options.add_loading(parser)


def run(args: argparse.Namespace) -> int:
    found = options.load(args).drafters()
    if args.json:
        print(json.dumps([{field: getattr(drafter, field) for field in FIELDS} for drafter in found]))
        return 0
    for drafter in found:
        kind = "exact" if drafter.exact else "lossy"
        print(f"{drafter.name:<16}{kind:<7}{drafter.why_not or 'available':<28}{drafter.title} ({drafter.paper})")
    return 0
