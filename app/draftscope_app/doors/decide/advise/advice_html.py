"""The answer as HTML: progress, then sentences, predicted beside measured, and settings for other engines. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from draftscope.advise.advice_verdict import Verdict
from draftscope.advise.question import Objective
from draftscope.base.machine import machine_words
from draftscope_app.doors.decide.advise.report import FOLDER, candidates, in_words
from draftscope_app.engine.plural import count
from draftscope_app.page import notes
from draftscope_app.reports.render import render

Report = Mapping[str, Any]  # what `draftscope advise --json` prints

OBJECTIVES = {
    Objective.LATENCY: "time to a whole answer",
    Objective.THROUGHPUT: "tokens/s of the machine",
    Objective.COST: "cost per million tokens",
    Objective.TAIL: "time of the slowest 5%",
}
SO_FAR = {
    Verdict.ON: "Turn it on, so far",
    Verdict.OFF: "Leave it off, so far",
    Verdict.OPEN: "It cannot be told yet",
}
LOOKS = 12  # at the runs, whose intervals are drawn


WAITING = (
    "This machine's costs of rounds are not measured yet: costs are those of these runs, and where the answer changes "
    "with the load, and the map, are left out."
)


def stopped() -> Markup:
    return Markup('<p role="status">Stopped before there was an answer; nothing was decided.</p>')


def partial(events: Sequence[Report]) -> Markup:
    """The place of the verdict while it is measured: what it is so far, and a bar for the interval at each look at the
    runs, the latest last, on one scale with the line at 1."""
    said = (events[-1].get("so_far") if events else "") or "Measuring"
    verdict = next((event["verdict"] for event in reversed(events) if event.get("verdict")), Verdict.OPEN)
    looks = [event["ratio"] for event in events if event.get("ratio")][-LOOKS:]
    low = min([1.0, *(ratio["low"] for ratio in looks)])
    wide = max([1.0, *(ratio["high"] for ratio in looks)]) - low or 1.0
    return render(
        FOLDER / "advice_partial.html", said=said, looks=looks, verdict=SO_FAR[Verdict(verdict)], low=low,
        share=lambda part: _percent(part / wide),
    )  # fmt: skip


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def measured(report: Report) -> Markup:
    """That it is over, and what was not measured for it."""
    return Markup('<p role="status">Measured.</p>') + (notes.muted(WAITING) if report["costs_s"] else "")


def costs_button(report: Report) -> str:
    """What measures the costs too, and how long that takes once; empty where they are known."""
    return f"Where it changes, about {_minutes(report['costs_s'])} once for this machine" if report["costs_s"] else ""


def _minutes(seconds: float) -> str:
    return f"{5 * math.ceil(seconds / 5)} s" if seconds < 60 else f"{math.ceil(seconds / 60)} min"


def verdict(report: Report) -> Markup:
    """The verdict with its interval, its limits, what eats the gain, and what was asked, and where."""
    said, *more = report["sentences"]
    words, _, about = said.partition(": ")
    chosen = report["chosen"]
    ratio = next((row["ratio"] for row in report["measured"] if row["name"] == chosen["name"]), None)
    return render(
        FOLDER / "advice_answer.html", report=report, verdict=words, about=about, more=more, ratio=ratio,
        eaten=_eaten(chosen), asked=f"{in_words(report['question'])} {machine_words(report['machine'])}.",
    )  # fmt: skip


def details(report: Report) -> Markup:
    """Settings of other engines, and the candidates."""
    best, others = _candidates(report)
    return render(
        FOLDER / "advice_details.html",
        ready=[entry for entry in report["ready"] if entry["settings"]],
        candidates=candidates({**report, "predicted": best}, "ds-table"),
        others=count(len(others), "other setting") if others else "",
        other_candidates=candidates({**report, "predicted": others, "measured": []}, "ds-table"),
        alpha=_alpha(report) if report["alpha"] and report["measured"] else "",
        notes=report["notes"],
    )


def _eaten(chosen: Report) -> list[tuple[str, str, str, str]]:
    """Bars from the tokens a round down to the speed: each of the others is what one cost takes of it."""
    tau, cost, speed = chosen["tau"]["median"], chosen["cost"], chosen["ratio"]["median"]
    after = tau / (1 + chosen["drafting"])
    verified = tau / cost
    parts = (
        ("drafting", tau, after),
        ("verifying and the rest", after, verified),
        ("reading the prompt", verified, speed),
    )
    rows = [
        ("tokens a round", 0.0, tau, f"{tau:.2f}"),
        *((name, low, high, f"{low - high:+.2f}") for name, high, low in parts),
        ("speed over plain", 0.0, speed, f"{speed:.2f}"),
    ]
    most = max(tau, after, verified, speed)
    return [
        (name, _percent(min(low, high) / most), _percent(abs(high - low) / most), words)
        for name, low, high, words in rows
    ]


def _candidates(report: Report) -> tuple[list[Report], list[Report]]:
    """The best setting of each drafter and those that were run; all others."""
    ran = {run["name"] for run in report["measured"]}
    best: dict[str, str] = {}
    for prediction in report["predicted"]:
        best.setdefault(prediction["candidate"]["drafter"], prediction["name"])
    shown = [p for p in report["predicted"] if p["name"] in ran or p["name"] in best.values()]
    return shown, [p for p in report["predicted"] if p not in shown]


def _alpha(report: Report) -> str:
    rates = ", ".join(f"{alpha['median']:.2f} [{alpha['low']:.2f}, {alpha['high']:.2f}]" for alpha in report["alpha"])
    name = report["chosen"]["name"]
    return f"Acceptance by position, α, {name}, given that all before was accepted, with 95% intervals: {rates}."
