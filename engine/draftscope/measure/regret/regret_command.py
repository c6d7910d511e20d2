"""The command line of `draftscope regret`. Help needs no torch; what can be wrong is said before a model is loaded."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from draftscope.base.errors import DraftscopeError
from draftscope.drafters.settings import Settings
from draftscope.measure.bench import command
from draftscope.measure.bench.plan import Plan
from draftscope.measure.regret.regret_texts import asked

if TYPE_CHECKING:
    from draftscope.measure.regret.regret_report import RegretReport

PLAN = Plan(temperatures=(1.0,), peers=False)  # minutes on two cores; at T = 0 most continuations loop
QUICK = replace(PLAN, repeats=2, prompts_per_kind=1)
POLICIES: tuple[str, ...] = get_args(Settings.model_fields["policy"].annotation)
ARMS: tuple[str, ...] = Settings.model_fields["arms"].default


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `run` reads."""
    group = parser.add_argument_group("what is measured")
    group.add_argument("--arms", metavar="NAME:FORM,...", help=f"default: {','.join(ARMS)}")
    group.add_argument("--policies", metavar="NAME,...", help=f"default: {','.join(POLICIES)}")
    group.add_argument("--kinds", metavar="KIND,...", help="kinds of text (default: all)")
    group.add_argument("--prompts", type=Path, metavar="FILE.jsonl", help="prompts of your own, one object a line")
    group.add_argument("--temperature", metavar="T,...", help="default: 1")
    group.add_argument("--tokens", type=int, metavar="N", help=f"tokens to write (default: {PLAN.tokens})")
    group.add_argument("--repeats", type=int, metavar="N", help=f"after the warm-up (default: {PLAN.repeats})")
    group.add_argument("--quick", action="store_true", help="one prompt a kind, two repeats")
    group = parser.add_argument_group("what is left behind")
    group.add_argument("--out", type=Path, default=Path("regret"), metavar="DIR", help="folder of the files")
    group.add_argument("--json", action="store_true", help="print the JSON object instead of the tables")


def run(args: argparse.Namespace, load: command.Loader) -> RegretReport:
    """The whole measurement, saved as JSON and Markdown. Notes also go to stderr."""
    plan, arms, policies = planned(args), command.words("arms", args.arms) or ARMS, _policies(args)
    Settings.of(arms=arms)
    texts, notes = command.chosen(args, plan, asked())
    command.refuse_folder(args.out)
    from draftscope.drafters.policy.arms import arms_of
    from draftscope.drafters.registry import find
    from draftscope.measure.regret.regret import regret, save

    arms_of(Settings.of(arms=arms), find)
    report = regret(load(args.target, args.draft), plan, texts, arms, policies, notes)
    text = save(report, args.out)
    for note in report.notes:
        print(f"draftscope: {' '.join(note.split())}", file=sys.stderr)
    print(report.as_json() if args.json else text)
    return report


def planned(args: argparse.Namespace) -> Plan:
    """The plan that the arguments name, or a `DraftscopeError`."""
    given = {
        "kinds": command.words("kinds", args.kinds),
        "temperatures": command.numbers("temperature", args.temperature, float),
        "tokens": args.tokens,
        "repeats": args.repeats,
    }
    return replace(QUICK if args.quick else PLAN, **{key: value for key, value in given.items() if value is not None})


def _policies(args: argparse.Namespace) -> tuple[str, ...]:
    named = command.words("policies", args.policies) or POLICIES
    for name in named:
        if name not in POLICIES:
            raise DraftscopeError(f"There is no policy '{name}'; known are {', '.join(POLICIES)}.")
    return named
