"""Audits every exhibit as it was and as it was mended, by the same audit that `draftscope audit` runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from draftscope.base.steps import last
from draftscope.decode.engine import DecodingEngine
from draftscope.servers.audit.audit import AuditReport, audit
from draftscope.servers.audit.plan import AUDIT_PROMPTS, Plan
from draftscope.servers.museum.exhibits import EXHIBITS, Exhibit
from draftscope.servers.museum.server import Kept, MuseumServer, Reporter, Verify

PLAN = Plan(samples=960, tokens=8, concurrency=8)  # most of them for mends: a bug is clear after a few
ORDERED = "vllm"  # nothing is truncated, so the order in which a program samples does not matter


@dataclass(frozen=True)
class Exhibited:
    """An exhibit with its two audits."""

    exhibit: Exhibit
    wrong: AuditReport
    mended: AuditReport

    @property
    def as_expected(self) -> bool:
        return self.wrong.different and not self.mended.different and not self.mended.undecided


def tour(engine: DecodingEngine) -> Iterator[Exhibited]:
    """The target of `engine`, in fp32 on the CPU, is what the servers should write. Several bugs have the same mend,
    which is audited once."""
    ids, kept = [engine.encode(text) for text in AUDIT_PROMPTS], Kept()
    audits = dict[tuple[Verify, Reporter, bool], AuditReport]()
    for exhibit in EXHIBITS:
        for verify, report in (exhibit.wrong, exhibit.mended):
            if (verify, report, exhibit.greedy) not in audits:
                server = MuseumServer(engine.target, verify, report, exhibit.greedy, kept=kept)
                steps = audit(server, ORDERED, engine, AUDIT_PROMPTS, ids, PLAN)
                audits[verify, report, exhibit.greedy] = last(steps)
        wrong, mended = (audits[verify, report, exhibit.greedy] for verify, report in (exhibit.wrong, exhibit.mended))
        yield Exhibited(exhibit, wrong, mended)
