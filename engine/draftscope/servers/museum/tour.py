"""Audits every exhibit as it was and as it was mended, by the same audit that `draftscope audit` runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from draftscope.decode.engine import DecodingEngine
from draftscope.servers.audit.asked import Plan
from draftscope.servers.audit.audit import Report, audit
from draftscope.servers.audit.prompts import AUDIT_PROMPTS
from draftscope.servers.museum.exhibits import EXHIBITS, Exhibit
from draftscope.servers.museum.server import MuseumServer

PLAN = Plan(samples=160, tokens=8, concurrency=8)
ORDERED = "vllm"  # nothing is truncated, so the order in which a program samples does not matter


@dataclass(frozen=True)
class Shown:
    """An exhibit with its two audits."""

    exhibit: Exhibit
    wrong: Report
    mended: Report

    @property
    def as_expected(self) -> bool:
        return self.wrong.different and not self.mended.different and not self.mended.undecided


def tour(engine: DecodingEngine) -> Iterator[Shown]:
    """The target of `engine` is what the servers should write."""
    ids = [engine.encode(text) for text in AUDIT_PROMPTS]
    for exhibit in EXHIBITS:
        reports = [
            audit(
                MuseumServer(engine.target, verify, report, exhibit.greedy), ORDERED, engine, AUDIT_PROMPTS, ids, PLAN,
                server=f"{exhibit.program}, rebuilt",
            )
            for verify, report in (exhibit.wrong, exhibit.mended)
        ]  # fmt: skip
        yield Shown(exhibit, *reports)
