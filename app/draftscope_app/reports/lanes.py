"""Text and metrics of a run, computed from its events: as JSON for programs and as text. Imports no torch."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from pydantic import BaseModel, ConfigDict

from draftscope.base.errors import DraftscopeError
from draftscope.trace import metrics
from draftscope.trace.events import AnyEvent, Burst, Round, RunEnd, RunStart, SoloRuns
from draftscope.trace.metrics import Metrics, Percentiles
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


@dataclass(frozen=True)
class Lane:
    """One lane's events, from its start as far as they go."""

    start: RunStart
    events: tuple[AnyEvent, ...]

    @property
    def rounds(self) -> list[Round | Burst]:
        """A server's bursts count as its rounds."""
        return [event for event in self.events if isinstance(event, Round | Burst)]

    @property
    def end(self) -> RunEnd | None:
        return next((event for event in self.events if isinstance(event, RunEnd)), None)

    @property
    def text(self) -> str:
        return self.end.text if self.end else "".join(event.text_delta for event in self.rounds)

    @property
    def given(self) -> str:
        """The text of a fork before its own first token; empty for other lanes."""
        raw = "".join(self.start.fork.raw) if self.start.fork else ""
        return raw.encode("latin-1").decode("utf-8", "replace")

    @property
    def solo_seconds(self) -> list[float]:
        return next((event.seconds for event in reversed(self.events) if isinstance(event, SoloRuns)), [])

    def decoded(self) -> Decoded:
        end = self.end
        return Decoded(
            text=self.text,
            token_ids=end.token_ids if end else [token for event in self.rounds for token in event.emitted],
            drafter=self.start.drafter,
            exact=self.start.exact,
            synthetic=self.start.synthetic,
            settings=self.start.settings,
            target_forwards=end.target_forwards if end else len(self.rounds),
            metrics=metrics.fold(self.events),
        )

    def replayed(self) -> Replayed:
        return Replayed(
            **dict(self.decoded()),
            run=self.start.run,
            lane=self.start.lane,
            sequence=self.start.sequence,
            reason=self.end.reason if self.end else None,
            solo_seconds=self.solo_seconds,
        )


def lanes(events: Iterable[AnyEvent]) -> list[Lane]:
    """The lanes of a recording, in the order in which they started."""
    kept: dict[tuple[str, str, int], list[AnyEvent]] = {}
    for event in events:
        kept.setdefault((event.run, event.lane, event.sequence), []).append(event)
    lanes = []
    for (_, lane, _), recorded in kept.items():
        if not isinstance(recorded[0], RunStart):
            raise DraftscopeError(f"The trace has events of a lane '{lane}' that never started; record the run again.")
        lanes.append(Lane(recorded[0], tuple(recorded)))
    return lanes


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
        return f"{program}, {how} | recorded {start.created}"
    models = " + ".join(f"{m.name} ({m.weights})" if m.weights else m.name for m in start.models)
    place = f"{start.device}, {start.dtype}, {start.threads} threads"
    unchecked = start.exact and start.unchecked
    every = (("lossy", not start.exact), ("unchecked", unchecked), ("synthetic", start.synthetic))
    marks = [mark for mark, holds in every if holds]
    marked = f"{start.drafter} ({', '.join(marks)})" if marks else start.drafter
    return f"{marked} | {models} | recorded {start.created} on {place}"


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
    if not sys.stdout.isatty():
        return text
    return "".join(c if c in "\n\t" or unicodedata.category(c) != "Cc" else "\N{REPLACEMENT CHARACTER}" for c in text)


def _number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _row(values: Iterable[float | None], of: str) -> str:
    shown = " ".join(_number(value) for value in values)
    return shown + of if shown else "-"


def _percentiles(gaps: Percentiles) -> str:
    return f"p50 {_number(gaps.p50)}, p95 {_number(gaps.p95)}, p99 {_number(gaps.p99)} ms"
