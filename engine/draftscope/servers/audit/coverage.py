"""What an audit looks at and what it does not: the table in SERVERS.md, and the same rows of one report.

`NEEDED` was measured on servers with a seeded fault (tests/programs/audit_power.py prints it): tokens until an audit
was sure (1e-6), the median of 5 runs, where the fault moves the distribution of a token by that much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from draftscope.base import markdown

Status: TypeAlias = Literal["no difference", "different", "undecided", "not tested", "not covered"]
VARIATIONS = (0.05, 0.1, 0.2, 0.4)  # total variation of a token's distribution
NEEDED: Mapping[str, Mapping[float, int]] = {
    "temperature": {0.05: 10032, 0.1: 1824, 0.2: 336, 0.4: 96},
    "drafted tokens": {0.05: 13152, 0.1: 1920, 0.2: 576},
    "top-k": {0.05: 48, 0.1: 48, 0.2: 48, 0.4: 48},
    "top-p": {0.05: 48, 0.1: 48, 0.2: 48},
    "min-p": {0.05: 48, 0.1: 48, 0.2: 48, 0.4: 48},
    "fresh random numbers": {0.05: 624, 0.1: 288, 0.2: 240, 0.4: 96},
}  # fmt: skip


@dataclass(frozen=True)
class Covered:
    """One thing that a server may get wrong. `how`: by which test, or why by none. `unseen`: what stays hidden."""

    name: str
    how: str
    unseen: str = "-"
    covered: bool = True


BELOW = "differences below the tolerance for rounding"
ROWS = (
    Covered("greedy identity", "the tokens of 4 texts against plain's: one is enough; a tie is no difference",
            "ties that are settled wrongly"),
    Covered("temperature", "log-probabilities and ranks of sampled tokens", BELOW),
    Covered("drafted tokens", "the same, by position too: what a wrong verification writes", BELOW),
    Covered("top-k", "tokens outside are counted, those inside tested", "tokens at the edge, which rounding decides"),
    Covered("top-p", "the same", "tokens at the edge, which rounding decides"),
    Covered("min-p", "the same", "tokens at the edge, which rounding decides"),
    Covered("fresh random numbers", "texts of other seeds and of requests at once must not repeat", "numbers that "
            "repeat only after more texts than were asked for"),
    Covered("log-probabilities", "asked for at T = 1, against the target's: one is enough",
            "a server that reports none"),
    Covered("requests at once", "all of the above, as samples after the same prompt come at once", BELOW),
    Covered("seeds that repeat", "no program promises the same text in another batch", covered=False),
    Covered("mixed batches", "all requests of an audit have the same settings; audit while others use the server",
            covered=False),
    Covered("repetition penalty", "sent as off; its law depends on how a program counts the prompt", covered=False),
    Covered("presence and frequency penalties", "sent as off; their law depends on how a program counts the prompt",
            covered=False),
    Covered("logit bias", "never sent; some programs refuse it while they speculate", covered=False),
    Covered("stop strings", "a server leaves their tokens out, so nobody sees which were sampled", covered=False),
    Covered("JSON schemas", "the allowed tokens depend on the server's own grammar", covered=False),
    Covered("streaming and not", "every text is streamed", covered=False),
)  # fmt: skip


def table() -> str:
    """The rows as Markdown, with the tokens that each needs."""
    head = ("what", "tested by", *(f"TV {size:g}" for size in VARIATIONS), "not seen")
    rows = []
    for row in ROWS:
        needed = NEEDED.get(row.name, {})
        tokens = [f"{needed[size]:,}" if size in needed else "-" for size in VARIATIONS]
        rows.append((row.name, row.how if row.covered else f"not covered: {row.how}", *tokens, row.unseen))
    return markdown.table(head, rows, "llrrrrl")


def of_report(report: Mapping[str, Any]) -> list[tuple[str, Status, str]]:
    """Name, status and reason of every row, for one report (`audit.AuditReport.as_json`)."""
    return [(row.name, *(_status(row.name, report) if row.covered else ("not covered", row.how))) for row in ROWS]


def _status(name: str, report: Mapping[str, Any]) -> tuple[Status, str]:
    if name == "greedy identity":
        greedy = report["greedy"]
        if greedy["untold"]:
            return "undecided", f"{greedy['untold']} texts part, and without weights a tie cannot be told"
        return _judge(greedy["differs"], f"{greedy['equal']} of {greedy['tokens']} tokens equal, {greedy['ties']} ties")
    if name == "log-probabilities":
        logprobs = report["reported"] or {"untested": "without weights here there is nothing to compare with"}
        if logprobs["untested"]:
            return "not tested", logprobs["untested"]
        return _judge(logprobs["differs"], f"{logprobs['tokens']} tokens, {logprobs['worst']:.2g} nats off at most")
    sampled, sampling = report["sampled"], report["settings"]["sampling"]
    if sampled is None:
        return "not tested", "nothing was sampled at temperature 0"
    off = {"top-k": not sampling["top_k"], "top-p": sampling["top_p"] >= 1, "min-p": not sampling["min_p"]}
    if off.get(name):
        return "not tested", f"it was off; set --{name}"
    if report["incomplete"]:
        return "not tested", "the server failed too often"
    amount = f"{sampled['samples']} texts" if "samples" in sampled else f"{sampled['pairs']} pairs of texts"
    if not sampled["different"]:
        return ("undecided", f"{amount}: too few") if report["undecided"] else ("no difference", amount)
    if name == "fresh random numbers" and "evidence_by_test" in sampled:
        parts = sampled["evidence_by_test"]
        return _judge("texts repeat" if parts["repetition"] == max(parts.values()) else "", amount)
    return "different", f"{amount}: see the verdict"


def _judge(differs: str, otherwise: str) -> tuple[Status, str]:
    return ("different", differs) if differs else ("no difference", otherwise)
