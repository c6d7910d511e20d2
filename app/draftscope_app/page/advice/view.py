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
STAGES = {
    "costs": ("Measuring the cost of rounds on this machine; a minute for new models, once", ""),
    "acceptance": ("Measuring acceptance on these prompts", "prompt"),
    "proof": ("Running the best in turn with plain decoding", "run"),
}


def waiting(place: int) -> str:
    """Before it begins."""
    queue = f" {count(place, 'run')} before it." if place else ""
    return notes.progress(f"Waiting for the engine.{queue}", None)


def progress(event: Report, seconds: float) -> str:
    """How far it is, of `seconds`."""
    words, counted = STAGES[event["stage"]]
    done = f": {count(event['done'], counted)} so far" if counted and event["done"] else ""
    left = event.get("left_s")
    if left is None:
        return notes.progress(f"{words}.", None)
    return notes.progress(f"{words}{done}. About {left:.0f} s left.", 1 - left / seconds if seconds else None)


def stopped() -> str:
    return '<p role="status">Stopped before there was an answer; nothing was decided.</p>'


def answer(report: Report) -> str:
    """The whole answer."""
    verdict, *more = report["sentences"]
    about = f"{in_words(report['question'])} {machine_words(report['machine'])}."
    alpha = _alpha(report) if report["alpha"] and report["measured"] else ""
    return (
        f'<div role="status"><p class="ds-verdict" data-verdict="{escape(report["verdict"])}">{escape(verdict)}</p>'
        f"{_listed(more)}</div>{_candidates(report)}{alpha}{_settings(report['ready'])}"
        f"{_notes(report['notes'])}{notes.muted(about)}"
    )


def _listed(sentences: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(each)}</li>' for each in sentences)}</ul>" if sentences else ""


def _candidates(report: Report) -> str:
    """The best setting of each drafter and those that were run; all others are folded."""
    ran = {each["name"] for each in report["measured"]}
    best: dict[str, str] = {}
    for each in report["predicted"]:
        best.setdefault(each["candidate"]["drafter"], each["name"])
    shown = [each for each in report["predicted"] if each["name"] in ran or each["name"] in best.values()]
    others = [each for each in report["predicted"] if each not in shown]
    table = candidates({**report, "predicted": shown}, "ds-table")
    if not others:
        return table
    more = candidates({**report, "predicted": others, "measured": []}, "ds-table")
    return f"{table}<details><summary>{count(len(others), 'other setting')}</summary>{more}</details>"


def _alpha(report: Report) -> str:
    rates = ", ".join(f"{each['median']:.2f} [{each['low']:.2f}, {each['high']:.2f}]" for each in report["alpha"])
    name = report["chosen"]["name"]
    said = f"Acceptance by position, {name}, given that all before was accepted, with 95% intervals: {rates}."
    return notes.muted(said)


def _settings(ready: Sequence[Mapping[str, str]]) -> str:
    """Each with a button that copies it."""
    shown = "".join(
        f'<div class="ds-setting"><h2>{escape(each["engine"])}</h2><button type="button" data-copy '
        f'aria-label="Copy the settings for {escape(each["engine"])}">Copy</button><pre tabindex="0">'
        f"{escape(each['settings'])}</pre>{notes.muted(_checked(each))}</div>"
        for each in ready
        if each["settings"]
    )
    return f"<details><summary>Settings for other engines</summary>{shown}</details>" if shown else ""


def _checked(ready: Mapping[str, str]) -> str:
    checked = f"{ready['checked'][0].upper()}{ready['checked'][1:]}."
    return f"{checked} {ready['note']}" if ready["note"] else checked


def _notes(lines: Sequence[str]) -> str:
    return f"<h2>Notes</h2>{_listed(lines)}" if lines else ""
