"""An audit as events, for a page that shows how far it is."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any, Literal

from pydantic import Field

from draftscope.base.steps import Steps, mapped
from draftscope.servers.audit.audit import AuditReport
from draftscope.servers.audit.plan import Plan
from draftscope.servers.audit.two_servers import Compared
from draftscope.servers.audit.waves import Audited
from draftscope.servers.background import in_background
from draftscope.trace.events import Record


class AuditProgress(Record):
    """How an audit stands; `verdict` is empty until it is over. Evidence is in nats."""

    kind: Literal["audit"] = "audit"
    server: str  # its name
    program: str
    against: str  # whose distribution is the standard
    temperature: float
    texts: int = 0
    samples: int  # texts at most
    seconds: float = 0.0
    evidence: float = 0.0
    needed: float  # evidence from which a difference is called clear
    false_alarm: float
    parts: dict[str, float] = Field(default_factory=dict)  # evidence by kind of test
    positions: list[dict[str, float]] = Field(default_factory=list)
    verdict: str = ""
    different: bool = False
    incomplete: bool = False
    undecided: bool = False
    example: dict[str, str] | None = None  # prompt and text
    created: str = ""


def stream_audit(
    start: AuditProgress, audit: Steps[Audited | Compared, AuditReport]
) -> Steps[AuditProgress | None, AuditReport]:
    """The audit wave by wave, and None while nothing comes; the last event has the verdict."""
    latest = start

    def follow(state: Audited | Compared) -> AuditProgress:
        nonlocal latest
        latest = start.model_copy(update=_standing(state))
        return latest

    yield start
    report = yield from in_background(mapped(audit, follow))
    yield _ended(latest, report)
    return report


def initial(server: str, program: str, against: str, plan: Plan) -> AuditProgress:
    """Before anything was asked."""
    return AuditProgress(
        server=server, program=program, against=against, temperature=plan.sampling.temperature, samples=plan.samples,
        needed=math.log(1 / plan.false_alarm), false_alarm=plan.false_alarm,
    )  # fmt: skip


def _standing(state: Audited | Compared) -> dict[str, Any]:
    update: dict[str, Any] = {"texts": state.texts, "seconds": state.seconds, "evidence": state.total}
    if isinstance(state, Audited):
        update["parts"] = state.evidence.parts
        update["positions"] = [_numbers(asdict(position)) for position in state.evidence.positions]
    return update


def _ended(latest: AuditProgress, report: AuditReport) -> AuditProgress:
    return latest.model_copy(
        update={
            "verdict": report.verdict, "different": report.different, "incomplete": report.incomplete,
            "undecided": report.undecided, "example": report.example, "created": report.created,
        }
    )  # fmt: skip


def _numbers(position: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in position.items()}
