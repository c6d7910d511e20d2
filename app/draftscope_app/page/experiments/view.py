"""An experiment as HTML: its question, what its chart shows, where it was measured, its verdict, its commands. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from draftscope.base.machine import machine_words
from draftscope.claims.experiments import Experiment
from draftscope_app.page import notes
from draftscope_app.page.claims.view import OPEN, SHORT

Values = Mapping[str, Any]  # what `draftscope claims --save` writes
HOW_LONG = (
    "Each command takes one to five minutes on two idle cores; after ten minutes they are stopped. Runs of this page "
    "meanwhile disturb the measurement."
)


def chart_of(experiment: Experiment, saved: Values) -> Values | None:
    """Its chart in a file of results; None where they lack what it needs."""
    found = next((each for each in saved.get("experiments", ()) if each["name"] == experiment.name), None)
    return found["chart"] if found is not None else None


def about(experiment: Experiment, saved: Values) -> str:
    """All that is said beside the chart of shipped results."""
    return _about(experiment, saved, _missing(experiment), "Measured on")


def about_own(experiment: Experiment, own: Values, saved: Values) -> str:
    """The same for what was measured here; the shipped verdict comes last, to compare."""
    missing = "The commands ran here, but too few results are left for a chart: texts that mostly loop do not count."
    claim = _claim(experiment, saved)
    shipped = f'<p class="ds-muted">The shipped result: {claim}</p>' if claim else ""
    return _about(experiment, own, missing, "Measured here") + shipped


def progress(command: str, spent: float, most: float) -> str:
    """While it runs."""
    shown = f"Running <code>{escape(command)}</code>: {spent:.0f} s of at most {most:.0f} s."
    return notes.progress(shown, spent / most)


def _about(experiment: Experiment, saved: Values, missing: str, where: str) -> str:
    chart, claim = chart_of(experiment, saved), _claim(experiment, saved)
    said = f"<p>{escape(chart['note'] if chart else missing)}</p>" + (f"<p>{claim}</p>" if claim else "")
    measured = notes.muted(f"{where}: {machine_words(saved['machine'])}.") if chart or claim else ""
    commands = "".join(f"<li><code>{escape(command)}</code></li>" for command in experiment.commands)
    return f'<p class="ds-question">{escape(experiment.question)}</p>{said}{measured}<ul>{commands}</ul>'


def _claim(experiment: Experiment, saved: Values) -> str:
    """The verdict on its claim; empty without one."""
    claim = next((each for each in saved["claims"] if each["number"] == experiment.number), None)
    if claim is None or claim["verdict"] in OPEN:
        return ""
    verdict = SHORT.get(claim["verdict"], claim["verdict"])
    return (
        f"Claim {claim['number']}, “{escape(claim['sentence'])}”: <strong>{escape(verdict)}</strong>. "
        f"{escape(claim['found'])}"
    )


def _missing(experiment: Experiment) -> str:
    why = experiment.claim.why_not
    return f"Not measured yet: {why}." if why else "Not measured yet; the command below measures it."
