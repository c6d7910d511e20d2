"""`draftscope pairs`: targets with a published drafter, what they need, and whether this version runs that drafter."""

from __future__ import annotations

import argparse
import json

WIDTHS = (37, 38, 13, 9, 9, 7)
HEAD = ("target", "drafter", "kind", "GB bf16", "licence", "runs")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print a JSON list")


def run(args: argparse.Namespace) -> int:
    from draftscope.drafters.catalog import PAIRS, Pair

    if args.json:
        told = ("target", "drafter", "kind", "gb", "gated", "runs", "note")
        print(json.dumps([{name: getattr(pair, name) for name in told} for pair in PAIRS]))
        return 0

    def cells(pair: Pair) -> tuple[str, ...]:
        gate, runs = "accept" if pair.gated else "-", "yes" if pair.runs else "not yet"
        return (pair.target, pair.drafter, pair.kind, f"{pair.gb:.1f}", gate, f"{runs:<9}{pair.note}")

    for row in (HEAD, *map(cells, PAIRS)):
        print(" ".join(f"{cell:<{width}}" for cell, width in zip(row, WIDTHS, strict=True)).rstrip())
    print(
        "\nGB: weights of both in bfloat16, the cache comes on top. 'accept': a licence to accept on the hub, then "
        "'hf auth login'.\nTo run one: draftscope decode PROMPT --target TARGET --draft DRAFTER"
    )
    return 0
