"""The answer as HTML: progress, then sentences, predicted beside measured, and settings for other engines. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from draftscope.advise.question import Objective
from draftscope.base.machine import machine_words
from draftscope_app.engine.plural import count
from draftscope_app.page import notes
from draftscope_app.reports.advice_page import candidates, in_words

Report = Mapping[str, Any]  # what `draftscope advise --json` prints

OBJECTIVES = {
    Objective.LATENCY: "time to a whole answer",
    Objective.THROUGHPUT: "tokens/s of the machine",
    Objective.COST: "cost per million tokens",
    Objective.TAIL: "time of the slowest 5%",
}
LOOKS = 12  # at the runs, whose intervals are drawn
STAGES = {
    "costs": ("Measuring what a round costs here, once for this machine", ""),
    "acceptance": ("Measuring acceptance on these prompts", "prompt"),
    "proof": ("Running the best in turn with plain decoding", "run"),
}


def waiting(place: int) -> str:
    """Before it begins."""
    queue = f" {count(place, 'run')} before it." if place else ""
    return notes.progress(f"Waiting for the engine.{queue}", None)


def progress(event: Report, seconds: float) -> str:
    """How far it is: of the costs, which come first, or of `seconds`."""
    words, counted = STAGES[event["stage"]]
    left = event.get("left_s")
    if left is None:
        return notes.progress(f"{words}.", None)
    if not counted:
        then = f"About {max(left - seconds, 0):.0f} s left, then the {seconds:g} s that were chosen."
        return notes.progress(f"{words}. {then}", event["done"] / 100)
    done = f": {count(event['done'], counted)} so far" if event["done"] else ""
    return notes.progress(f"{words}{done}. About {left:.0f} s left.", 1 - left / seconds if seconds else None)


def stopped() -> str:
    return '<p role="status">Stopped before there was an answer; nothing was decided.</p>'


def partial(events: Sequence[Report]) -> str:
    """The place of the verdict while it is measured: what is known, and how its interval closes."""
    said = (events[-1].get("so_far") if events else "") or "Measuring"
    return f'<p role="status">{escape(said)}; nothing is decided yet.</p>{_closing(events)}'


def _closing(events: Sequence[Report]) -> str:
    """A bar for each look at the runs, the latest last, on one scale with the line at 1."""
    looks = [event["ratio"] for event in events if event.get("ratio")][-LOOKS:]
    if not looks:
        return ""
    low = min(1.0, *(ratio["low"] for ratio in looks))
    wide = max(1.0, *(ratio["high"] for ratio in looks)) - low or 1.0

    def at(ratio: float) -> str:
        return f"{100 * (ratio - low) / wide:.1f}%"

    bars = "".join(
        f'<i style="margin-left: {at(ratio["low"])}; width: {100 * (ratio["high"] - ratio["low"]) / wide:.1f}%"></i>'
        for ratio in looks
    )
    last = looks[-1]
    label = f"The interval after each run, the latest {last['low']:.2f} to {last['high']:.2f}"
    return f'<div class="ds-closing" role="img" aria-label="{label}"><b style="left: {at(1.0)}">1</b>{bars}</div>'


def measured(report: Report) -> str:
    """What was asked, and where."""
    about = f"{in_words(report['question'])} {machine_words(report['machine'])}."
    return f'<p role="status">Measured.</p>{notes.muted(about)}'


def answer(report: Report) -> str:
    """The whole answer: the verdict, what eats the gain, settings, and candidates."""
    said, *more = report["sentences"]
    verdict, _, about = said.partition(": ")
    alpha = _alpha(report) if report["alpha"] and report["measured"] else ""
    return (
        f'<div role="status"><p class="ds-verdict" data-verdict="{escape(report["verdict"])}">{escape(verdict)}'
        f"{_ratio(report)}</p><p>{escape(about)}</p>{_listed(more)}</div>{_eaten(report['chosen'])}"
        f"{_settings(report['ready'])}{_candidates(report)}{alpha}{_notes(report['notes'])}"
    )


def _ratio(report: Report) -> str:
    """What the verdict is about, where it was run."""
    name = report["chosen"]["name"]
    ratio = next((row["ratio"] for row in report["measured"] if row["name"] == name), None)
    return f": {ratio['median']:.2f} <small>[{ratio['low']:.2f}, {ratio['high']:.2f}]</small>" if ratio else ""


def _eaten(chosen: Report) -> str:
    """From the tokens a round down to the speed: each bar is what one cost takes of it."""
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
    scale = 100 / max(tau, after, tau / cost, speed)
    bars = "".join(
        f'<dt>{name}</dt><dd><i style="margin-left: {min(low, high) * scale:.1f}%; width: '
        f'{abs(high - low) * scale:.1f}%"></i></dd><dd>{words}</dd>'
        for name, low, high, words in rows
    )
    return f'<h3>What eats the gain, predicted</h3><dl class="ds-eaten">{bars}</dl>'


def _listed(sentences: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(sentence)}</li>' for sentence in sentences)}</ul>" if sentences else ""


def _candidates(report: Report) -> str:
    """The best setting of each drafter and those that were run; all others are folded."""
    ran = {run["name"] for run in report["measured"]}
    best: dict[str, str] = {}
    for prediction in report["predicted"]:
        best.setdefault(prediction["candidate"]["drafter"], prediction["name"])
    shown = [p for p in report["predicted"] if p["name"] in ran or p["name"] in best.values()]
    others = [p for p in report["predicted"] if p not in shown]
    table = candidates({**report, "predicted": shown}, "ds-table")
    if not others:
        return table
    more = candidates({**report, "predicted": others, "measured": []}, "ds-table")
    return f"{table}<details><summary>{count(len(others), 'other setting')}</summary>{more}</details>"


def _alpha(report: Report) -> str:
    rates = ", ".join(f"{alpha['median']:.2f} [{alpha['low']:.2f}, {alpha['high']:.2f}]" for alpha in report["alpha"])
    name = report["chosen"]["name"]
    said = f"Acceptance by position, α, {name}, given that all before was accepted, with 95% intervals: {rates}."
    return notes.muted(said)


def _settings(ready: Sequence[Mapping[str, str]]) -> str:
    """Each with a button that copies it."""
    shown = "".join(
        f'<div class="ds-setting"><h3>{escape(entry["engine"])}</h3><button type="button" data-copy '
        f'aria-label="Copy the settings for {escape(entry["engine"])}">Copy</button><pre tabindex="0">'
        f"{escape(entry['settings'])}</pre>{notes.muted(_checked(entry))}</div>"
        for entry in ready
        if entry["settings"]
    )
    return f"<details open><summary>Settings to copy</summary>{shown}</details>" if shown else ""


def _checked(ready: Mapping[str, str]) -> str:
    checked = f"{ready['checked'][0].upper()}{ready['checked'][1:]}."
    return f"{checked} {ready['note']}" if ready["note"] else checked


def _notes(lines: Sequence[str]) -> str:
    return f"<h3>Notes</h3>{_listed(lines)}" if lines else ""
