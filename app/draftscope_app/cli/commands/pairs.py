"""`draftscope pairs`: targets with a published drafter, and what they need."""

from __future__ import annotations

import json as jsonlib
from typing import TYPE_CHECKING

from draftscope_app.cli import command_options, terminal
from draftscope_app.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from draftscope.drafters.catalog import Pair

FIELDS = ("target", "drafter", "kind", "gb", "gated", "note")  # the contract of --json
HEAD = ("target", "drafter", "kind", "GB bf16", "licence", "note")


def pairs(json: command_options.Json = False) -> int:
    """List known pairs of models, and what they need."""
    from draftscope.drafters.catalog import PAIRS

    if json:
        print(jsonlib.dumps([{name: getattr(pair, name) for name in FIELDS} for pair in PAIRS]))
        return ExitCode.OK
    terminal.show(terminal.Table(HEAD, [_cells(pair) for pair in PAIRS], numbers=frozenset({3})))
    print(
        "\nGB: weights of both in bfloat16, without the cache. 'accept': accept a licence on the hub first, then run "
        "'hf auth login'.\nTo run one: draftscope decode PROMPT --target TARGET --draft DRAFTER"
    )
    return ExitCode.OK


def _cells(pair: Pair) -> tuple[str, ...]:
    return (pair.target, pair.drafter, pair.kind, f"{pair.gb:.1f}", "accept" if pair.gated else "-", pair.note)
