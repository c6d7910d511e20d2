"""The command line of `draftscope bench` and `python -m draftscope.measure.bench`. Help needs no torch.

Everything that can be wrong with a value is said before a model is loaded; a draft that cannot be loaded is named, and
the rest goes on without it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from draftscope.base import prompts
from draftscope.base.errors import DraftscopeError
from draftscope.base.prompts import Prompt
from draftscope.measure.bench.plan import QUICK, Plan

if TYPE_CHECKING:
    from draftscope.decode.lab import Lab
    from draftscope.measure.bench.report import Report

Value = TypeVar("Value", int, float)
Loader = Callable[[str | None, str | None], "Lab"]  # target and draft, as the command line names them


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `planned` and `chosen` read; where the files go; and how much is printed."""
    default = Plan()

    def listed(values: Sequence[object]) -> str:
        return ",".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)

    group = parser.add_argument_group("what is measured")
    group.add_argument("--drafters", metavar="NAME,...", help="'draftscope drafters' lists them (default: all)")
    group.add_argument("--kinds", metavar="KIND,...", help="kinds of text (default: all)")
    group.add_argument("--prompts", type=Path, metavar="FILE.jsonl", help="prompts of your own, one object a line")
    group.add_argument("--temperature", metavar="T,...", help=f"default: {listed(default.temperatures)}")
    group.add_argument("--gamma", metavar="N,...", help=f"drafted tokens (default: {listed(default.gammas)})")
    group.add_argument("--lengths", metavar="LENGTH,...", help="fixed (default), or chosen while drafting: cost, ...")
    group.add_argument("--rules", metavar="RULE,...", help=f"of drawn chains (default: {listed(default.rules)})")
    group.add_argument("--batch", metavar="N,...", help="sequences decoded together (default: 1)")
    group.add_argument("--context", metavar="N,...", help="tokens of the prompt (default: prompts as they are)")
    group.add_argument("--tokens", type=int, metavar="N", help=f"tokens to write (default: {default.tokens})")
    group.add_argument("--repeats", type=int, metavar="N", help=f"after the warm-up (default: {default.repeats})")
    group.add_argument("--no-peers", action="store_true", help="only this project's own drafters")
    group.add_argument("--quick", action="store_true", help="one prompt a kind, gamma 4; minutes on two cores")
    group = parser.add_argument_group("what is left behind")
    group.add_argument("--out", type=Path, default=Path("bench"), metavar="DIR", help="folder of the files")
    group.add_argument("--json", action="store_true", help="print the JSON object instead of the tables")


def planned(args: argparse.Namespace) -> Plan:
    """The plan that the arguments name, or a `DraftscopeError`."""
    given: dict[str, Any] = {
        "drafters": words("drafters", args.drafters),
        "kinds": words("kinds", args.kinds),
        "temperatures": numbers("temperature", args.temperature, float),
        "gammas": numbers("gamma", args.gamma, int),
        "lengths": words("lengths", args.lengths),
        "rules": words("rules", args.rules),
        "batches": numbers("batch", args.batch, int),
        "contexts": numbers("context", args.context, int),
        "tokens": args.tokens,
        "repeats": args.repeats,
        "peers": False if args.no_peers else None,
    }
    return replace(QUICK if args.quick else Plan(), **{key: value for key, value in given.items() if value is not None})


def chosen(
    args: argparse.Namespace, plan: Plan, more: Sequence[Prompt] = ()
) -> tuple[dict[str, list[Prompt]], list[str]]:
    """The plan's prompts by kind, of a file or the shipped ones and `more`; a note about skipped lines."""
    found, notes = ([*prompts.shipped(), *more], []) if args.prompts is None else prompts.read(args.prompts)
    return prompts.select(found, plan.kinds, plan.prompts_per_kind), notes


def run(args: argparse.Namespace, load: Loader) -> Report:
    """The whole benchmark, saved as JSON and Markdown. Notes also go to stderr."""
    plan = planned(args)
    texts, notes = chosen(args, plan)
    refuse_folder(args.out)
    from draftscope.measure.bench.benchmark import benchmark, save
    from draftscope.measure.bench.systems import refuse_unknown

    refuse_unknown(plan.drafters)
    lab, more = loaded(args, load)
    report = benchmark(lab, plan, texts, [*notes, *more])
    text = save(report, args.out)
    for note in report.notes:
        print(f"draftscope: {' '.join(note.split())}", file=sys.stderr)
    print(report.as_json() if args.json else text)
    return report


def loaded(args: argparse.Namespace, load: Loader) -> tuple[Lab, list[str]]:
    """The pair; or, where a draft was named and something is wrong with it, the target alone and why."""
    try:
        return load(args.target, args.draft), []
    except DraftscopeError as error:
        if args.draft is None:
            raise
        from draftscope.models.loading import embedded

        alone = load(args.target or str(embedded.home("target")), None)  # says what is wrong with the target itself
        return alone, [f"Measured without the draft '{args.draft}'. {error}"]


def refuse_folder(folder: Path) -> None:
    """Said before the minutes of measuring, not after."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DraftscopeError(f"--out {folder}: no such folder can be made ({reason}); name another.") from None
    if not os.access(folder, os.W_OK):
        raise DraftscopeError(f"--out {folder}: nothing may be written there; name another folder.")


def words(option: str, given: str | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    words = tuple(dict.fromkeys(word.strip() for word in given.split(",") if word.strip()))
    if not words:
        raise DraftscopeError(f"--{option} '{given}' names nothing; give names separated by commas.")
    return words


def numbers(option: str, given: str | None, kind: Callable[[str], Value]) -> tuple[Value, ...] | None:
    named = words(option, given)
    if named is None:
        return None
    try:
        return tuple(dict.fromkeys(kind(word) for word in named))
    except ValueError:
        whole = "whole numbers" if kind is int else "numbers"
        raise DraftscopeError(f"--{option} {given}: give {whole} separated by commas.") from None
