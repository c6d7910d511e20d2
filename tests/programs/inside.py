"""What vLLM decides, seen from inside: `make inside`, or `python -m tests.programs.inside --vllm build/vllm/bin/vllm`.

vLLM for CPUs with the embedded models and `draftscope-vllm`, as it is and with #55005 mended, with each of its drafters
and with none: every decision tested. Last come some pairs of what recording costs; `tests.programs.inside_cost`
measures that with more of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from draftscope.base import markdown
from draftscope.servers.audit.plan import AUDIT_PROMPTS
from draftscope.servers.inside.decision_audit import InsidePlan, InsideReport, audit_inside
from draftscope.verify.sampling import Sampling
from tests.doors.servers.inside.vllm_cpu import MENDED_TOO, PORT, RECORDED, command
from tests.programs import inside_cost
from tests.programs.interop import started

LAWS = (Sampling(1.0), Sampling(0.7, top_p=0.9), Sampling(0.0))  # top-k can end vLLM 0.32: engine/inside/VLLM_0_32.md
PLUGINS = {"stock": RECORDED, "mended": MENDED_TOO}
SERVERS = (
    ("stock", "none", LAWS[:1]),
    ("stock", "draft", LAWS),
    ("mended", "draft", LAWS),
    ("mended", "eagle3", LAWS),
    ("mended", "ngram", LAWS),
)
DECISIONS = ("verdict", "greedy token")
HEAD = ("vLLM", "drafter", "asked for", "requests", "rounds", "decisions", "violations", "verdict, or cost")

Row = tuple[str, ...]


def audited(program: Path, tokens: int) -> Iterator[Row]:
    """A row for each law of each server, by `tokens` tokens each."""
    for plugins, method, laws in SERVERS:
        with started(program, command(PLUGINS[plugins], PORT, method=method), ("--enforce-eager",)) as server:
            for law in laws:
                report = audit_inside(server.identity.url, AUDIT_PROMPTS, InsidePlan(law, tokens))
                yield (plugins, method, f"T {law.temperature:g}, top-p {law.top_p:g}", *told(report))


def told(report: InsideReport) -> Row:
    counts = map(str, (report.requests, report.rounds, report.decisions, violations(report)))
    first = report.first_wrong
    if first is not None:
        return (*counts, f"convicted: {first.tensor}; {first.fault}")
    return (*counts, report.verdict if report.different or report.incomplete else "acquitted")


def violations(report: InsideReport) -> int:
    return sum(finding.wrong for finding in report.findings if finding.tensor in DECISIONS)


def costs(pairs: list[inside_cost.Pair]) -> Iterator[Row]:
    for (at_once, way), chosen in inside_cost.grouped(pairs).items():
        asked = f"{at_once} at once, recorded: {way}"
        nothing = ("", "", "")  # is tested
        yield ("mended", "draft", asked, str(at_once * len(chosen)), *nothing, inside_cost.change(chosen))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.programs.inside", description=__doc__)
    parser.add_argument("--vllm", type=Path, required=True, help="the program, of an environment with draftscope-vllm")
    parser.add_argument("--tokens", type=int, default=960, help="for each law of each server")
    parser.add_argument("--repeats", type=int, default=6, help="pairs of each cost")
    options = parser.parse_args()
    rows = list(audited(options.vllm.absolute(), options.tokens))
    pairs, lost = inside_cost.compared(options.vllm, tokens=96, repeats=options.repeats)
    print(markdown.table(HEAD, [*rows, *costs(pairs)]))
    print(f"\n{inside_cost.divided(pairs, lost)}")


if __name__ == "__main__":
    main()
