"""What vLLM decides, seen from inside: `make inside`, or `python -m tests.programs.inside --vllm build/vllm/bin/vllm`.

vLLM for CPUs with the embedded pair and `draftscope-vllm`, as it is and with #55005 mended: every decision tested.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from draftscope.base import markdown
from draftscope.base.assets import assets
from draftscope.servers.audit.prompts import AUDIT_PROMPTS
from draftscope.servers.inside.audit import InsidePlan, InsideReport, audit_inside
from draftscope.servers.programs.program import Command, ServedPair
from draftscope.servers.programs.registry import find_start
from draftscope.verify.sampling import Sampling
from tests.programs.interop import started

MENDED = Path(__file__).parents[1] / "inside/mended"
PORT = 8160
PAIR = ("llama-draftscope-15m", "llama-draftscope-draft-1m")
LAWS = (Sampling(1.0), Sampling(0.7, top_p=0.9), Sampling(0.0))  # top-k can end vLLM 0.32: engine/inside/VLLM_0_32.md
ROWS = ("temperature of drafted rows", "temperature of bonus and plain rows")
DECISIONS = ("verdict", "greedy token")
DRAWN = '"draft_sample_method": "probabilistic", '  # else drafts are the drafter's best tokens, and there is no q


def command(plugins: str, port: int, requests: int = 8, models: Path | None = None) -> Command:
    """Starts vLLM with the embedded pair, or a copy of it, which drafts four sampled tokens, and with these plugins."""
    target, draft = (str((models or assets() / "models") / name) for name in PAIR)
    pair = ServedPair(target, "draft", draft, context=512, requests=requests)
    start = find_start("vllm-cpu").commands(pair, port)[1]
    return replace(
        start,
        arguments=tuple(argument.replace('{"method"', f'{{{DRAWN}"method"') for argument in start.arguments),
        environment=(*start.environment, ("VLLM_PLUGINS", plugins), ("PYTHONPATH", str(MENDED))),
    )


def reports(program: Path, mended: bool, tokens: int, laws: Sequence[Sampling] = LAWS) -> list[InsideReport]:
    """Audits a server that is started for this, once for each law, by `tokens` tokens each."""
    with started(
        program, command("draftscope,vllm_55005" if mended else "draftscope", PORT), ("--enforce-eager",)
    ) as server:
        url = server.identity.url
        return [audit_inside(url, AUDIT_PROMPTS, InsidePlan(law, tokens)) for law in laws]


def wrong(report: InsideReport, tensors: Sequence[str]) -> str:
    found = [finding for finding in report.findings if finding.tensor in tensors]
    return f"{sum(each.wrong for each in found)} of {sum(each.tested for each in found)}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.programs.inside", description=__doc__)
    parser.add_argument("--vllm", type=Path, required=True, help="the program, of an environment with draftscope-vllm")
    parser.add_argument("--tokens", type=int, default=960, help="for each law of each server")
    options = parser.parse_args()
    rows = []
    for name, mended in (("stock", False), ("mended", True)):
        for law, report in zip(LAWS, reports(options.vllm.absolute(), mended, options.tokens), strict=True):
            settings = f"{law.temperature:g}, {law.top_k or '-'}, {law.top_p:g}"
            counts = (str(report.requests), str(report.rounds), wrong(report, ROWS), wrong(report, DECISIONS))
            first = report.first_wrong
            rows.append((name, settings, *counts, "none" if first is None else f"{first.tensor}: {first.fault}"))
    head = ("vLLM", "T, top-k, top-p", "requests", "rounds", "wrong rows of p", "wrong decisions", "first wrong tensor")
    print(markdown.table(head, rows))


if __name__ == "__main__":
    main()
