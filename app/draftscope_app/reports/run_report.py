"""Text and metrics of a run, computed from its events: as JSON for programs and as text. Imports no torch."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from statistics import median

from pydantic import BaseModel, ConfigDict

from draftscope.base.printable import printable as escaped
from draftscope.trace import metrics
from draftscope.trace.events import RunStart, SoloRuns
from draftscope.trace.metrics import Metrics, Percentiles
from draftscope.trace.result import Result
from draftscope_app.engine.plural import count


class Decoded(BaseModel):
    """The contract of `draftscope decode --json`."""

    model_config = ConfigDict(frozen=True)

    text: str
    token_ids: list[int]
    drafter: str
    exact: bool
    synthetic: bool  # the acceptance was chosen, so tokens a round say nothing about a drafter
    settings: dict[str, int | float | str | bool | list[int] | list[float] | list[str] | None]
    target_forwards: int
    metrics: Metrics


class Replayed(Decoded):
    """One lane in `draftscope replay --json`. `reason` is null where the recording breaks off before the end."""

    run: str
    lane: str
    sequence: int
    reason: str | None
    solo_seconds: list[float]  # whole runs of this lane alone, where they were recorded


def decoded(run: Result) -> Decoded:
    """What a program wants of a run."""
    return Decoded(
        text=run.text,
        token_ids=run.token_ids,
        drafter=run.start.drafter,
        exact=run.start.exact,
        synthetic=run.start.synthetic,
        settings=run.start.settings,
        target_forwards=run.end.target_forwards if run.end else len(run.arrivals),
        metrics=metrics.fold(run.events),
    )


def replayed(run: Result) -> Replayed:
    """The same of a recorded lane."""
    return Replayed(
        **dict(decoded(run)),
        run=run.start.run,
        lane=run.start.lane,
        sequence=run.start.sequence,
        reason=run.end.reason if run.end else None,
        solo_seconds=solo_seconds(run),
    )


def given_text(run: Result) -> str:
    """The text of a fork before its own first token; empty for other lanes."""
    raw = "".join(run.start.fork.raw) if run.start.fork else ""
    return raw.encode("latin-1").decode("utf-8", "replace")


def solo_seconds(run: Result) -> list[float]:
    """Of whole runs of this lane by itself, where they were recorded."""
    return next((event.seconds for event in reversed(run.events) if isinstance(event, SoloRuns)), [])


def as_json(report: BaseModel) -> str:
    """One line of ASCII, whatever the terminal's encoding; a number that is not finite becomes null."""
    return json.dumps(json.loads(report.model_dump_json()))


def summary(metrics: Metrics) -> str:
    """Tokens a round are emitted / rounds; tokens/s count the prefill, on the lane's own clock."""
    speed = "" if metrics.tokens_per_s is None else f", {metrics.tokens_per_s:.1f} tokens/s"
    per_round = f"{metrics.tokens_per_round:.2f} tokens a round"
    counts = f"{count(metrics.tokens, 'token')}, {count(metrics.target_forwards, 'target forward')}"
    return f"{counts}, {per_round}{speed}"


def origin(start: RunStart) -> str:
    """Where a run was recorded, for a person."""
    if start.server is not None:
        server = start.server
        program = " ".join(filter(None, (server.title or server.program, server.version, server.model)))
        how = "recorded inside it" if server.inside else "seen from here"
        return escaped(f"{program}, {how} | recorded {start.created}")
    models = " + ".join(f"{m.name} ({m.weights})" if m.weights else m.name for m in start.models)
    place = f"{start.device}, {start.dtype}, {start.threads} threads"
    unchecked = start.exact and start.unchecked
    every = (("lossy", not start.exact), ("unchecked", unchecked), ("synthetic", start.synthetic))
    marks = [mark for mark, holds in every if holds]
    marked = f"{start.drafter} ({', '.join(marks)})" if marks else start.drafter
    return escaped(f"{marked} | {models} | recorded {start.created} on {place}")


def metric_rows(metrics: Metrics, solo_seconds: list[float]) -> list[tuple[str, str]]:
    """Name and value of each metric; the value says what it is divided by."""
    rows = [
        ("mean acceptance length", f"{metrics.mean_acceptance_length:.3f} = 1 + accepted / rounds that drafted"),
        (
            "draft acceptance rate",
            f"{_number(metrics.draft_acceptance_rate, 3)} = {metrics.num_accepted_tokens} accepted / "
            f"{metrics.num_draft_tokens} drafted, in {count(metrics.num_drafts, 'round')} that drafted",
        ),
        ("accepted at position", _row(metrics.acceptance_rate_per_position, " of rounds that drafted")),
        ("conditional alpha_k", _row(metrics.conditional_acceptance_per_position, " of rounds that reached k")),
        ("TTFT, TPOT", f"{_number(metrics.ttft_ms)} ms, {_number(metrics.tpot_ms)} ms"),
        ("gaps between tokens", _percentiles(metrics.itl_ms)),
        ("gaps between chunks", _percentiles(metrics.icl_ms)),
    ]
    if solo_seconds:
        rows.append(("whole runs alone", f"median {median(solo_seconds):.3f} s of {len(solo_seconds)}"))
    return rows


def printable(text: str) -> str:
    """Text fit for a terminal: escape sequences of a model or of a stranger's trace must not steer it."""
    return escaped(text, keep="\n\t") if sys.stdout.isatty() else text


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _row(values: Iterable[float | None], of: str) -> str:
    shown = " ".join(_number(value) for value in values)
    return shown + of if shown else "-"


def _percentiles(gaps: Percentiles) -> str:
    return f"p50 {_number(gaps.p50)}, p95 {_number(gaps.p95)}, p99 {_number(gaps.p99)} ms"
