"""`draftscope check`: is it still the target? Exit code 1 where a difference was found."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from tqdm import tqdm

from draftscope.base.errors import DraftscopeError
from draftscope_app.cli.commands import options

if TYPE_CHECKING:
    from draftscope.decode.lab import Lab
    from draftscope.measure.check import Finding

LEAST_SAMPLES = (
    500  # below it hardly an outcome is expected five times, and a distribution test would pass whatever it saw
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--drafter", default="draft", metavar="NAME", help="who is checked (default: draft)")
    parser.add_argument("--rule", metavar="RULE", help="how a drawn chain is judged (default: block, then token)")
    parser.add_argument("--samples", type=int, default=2048, metavar="N", help="runs of each law test (default: 2048)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of every random draw (default: 0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options.add_loading(parser)


def run(args: argparse.Namespace) -> int:
    if args.samples < LEAST_SAMPLES:
        raise DraftscopeError(f"--samples {args.samples}: too few to tell laws apart; choose {LEAST_SAMPLES} or more.")
    from draftscope import drafters
    from draftscope.drafters.settings import Settings
    from draftscope.measure.check import verdict

    options.take_head(args)
    chosen = Settings.of(seed=args.seed, temperature=1.0, **({"rule": args.rule} if args.rule else {}))
    exact = drafters.find(args.drafter).exact_with(chosen)
    findings = _findings(args, options.load(args))
    passed, said = all(finding.passed for finding in findings), verdict(findings, exact)
    if args.json:
        told = [asdict(finding) for finding in findings]
        print(
            json.dumps({"drafter": args.drafter, "exact": exact, "passed": passed, "verdict": said, "findings": told})
        )
    else:
        print(said)
    return 0 if passed else 1


def _findings(args: argparse.Namespace, lab: Lab) -> list[Finding]:
    """Each finding is told as it is made: the distribution tests take a while."""
    from draftscope.measure.check import check

    findings = []
    with tqdm(unit=" checks", leave=False, disable=None, file=sys.stderr) as bar:
        for finding in check(lab, args.drafter, args.samples, args.seed, bar.set_description, args.rule):
            findings.append(finding)
            bar.update()
            if not args.json:
                tqdm.write(f"{'ok  ' if finding.passed else 'FAIL'}  {finding.name}: {finding.detail}")
    return findings
