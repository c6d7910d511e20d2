"""The GPU suite: the exactness checks and the benchmark on a CUDA machine, with its card, date and versions on record.

    PYTHONPATH=engine python3 -m draftscope.gpu --out FOLDER

Needs no gradio and builds nothing. On a machine without CUDA it stops with one sentence; `--device cpu` runs the same
code there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from draftscope.bench import prompts
from draftscope.bench.benchmark import benchmark, save
from draftscope.bench.plan import Plan
from draftscope.bench.report import machine
from draftscope.check import Finding, check
from draftscope.errors import DraftscopeError
from draftscope.lab import Lab, load


def exactness(lab: Lab, samples: int) -> Iterator[tuple[str, Finding]]:
    """Every check of every drafter that this pair can run."""
    for info in lab.drafters():
        if info.available:
            for finding in check(lab, info.name, samples):
                yield info.name, finding


def run(out: Path, device: str, samples: int, tokens: int, repeats: int, pair: tuple[str | None, str | None]) -> int:
    """Checks in fp32, benchmark in the device's own dtype; returns how many checks found a difference."""
    out.mkdir(parents=True, exist_ok=True)
    lab = load(*pair, dtype="float32", device=device)
    findings = []
    for drafter, finding in exactness(lab, samples):
        print(f"{'ok  ' if finding.passed else 'FAIL'} {drafter}: {finding.name}: {finding.detail}", flush=True)
        findings.append({"drafter": drafter, **asdict(finding)})
    (out / "exactness.json").write_text(json.dumps({"machine": machine(lab), "findings": findings}, indent=1))
    lab = load(*pair, device=device)
    plan = Plan(tokens=tokens, repeats=repeats, prompts_per_kind=1)
    texts = prompts.select(prompts.shipped(), per_kind=plan.prompts_per_kind)
    print(save(benchmark(lab, plan, texts), out))
    return sum(not finding["passed"] for finding in findings)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m draftscope.gpu", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("bench"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--target", help="hub id or folder; default: the embedded pair")
    parser.add_argument("--draft", help="hub id or folder")
    parser.add_argument("--samples", type=int, default=4096)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    try:
        pair = args.target, args.draft
        return 1 if run(args.out, args.device, args.samples, args.tokens, args.repeats, pair) else 0
    except DraftscopeError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
