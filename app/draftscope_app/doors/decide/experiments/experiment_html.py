"""An experiment as HTML: its question, what its chart shows, where it was measured, its verdict, its commands. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from draftscope.base.machine import machine_words
from draftscope.claims.experiments import Experiment
from draftscope_app.doors.decide.commands import ExperimentResult
from draftscope_app.doors.decide.judged import OPEN, SHORT
from draftscope_app.reports.render import render

TEMPLATE = Path(__file__).with_name("experiment.html")

Values = Mapping[str, Any]  # what `draftscope claims --save` writes


def chart_of(experiment: Experiment, saved: Values) -> Values | None:
    """Its chart in a file of results; None where they lack what it needs."""
    entry = next((entry for entry in saved.get("experiments", ()) if entry["name"] == experiment.name), None)
    return entry["chart"] if entry is not None else None


def about(experiment: Experiment, saved: Values) -> Markup:
    """All that is said beside the chart of shipped results."""
    return _about(experiment, saved, _missing(experiment), "Measured on")


def about_local(experiment: Experiment, result: ExperimentResult, saved: Values) -> Markup:
    """The same for what was measured here; the shipped verdict comes last, to compare."""
    missing = "The commands ran here, but their results hold too few texts for a chart: texts that loop do not count."
    claim = _claim(experiment, saved)
    more = [f"It took {duration(result.seconds)}.", *result.notes]
    if claim:
        more.append(Markup("The shipped result: {}").format(claim))
    return _about(experiment, result.values, missing, "Measured here", more)


def how_long(experiment: Experiment, most: float) -> str:
    """Before it runs."""
    expected = duration(experiment.expected_s)
    return (
        f"Measures the embedded models. Takes about {expected} on two idle cores and is stopped after "
        f"{duration(most)}. Do not run anything else on this page meanwhile: it would disturb the measurement."
    )


def duration(seconds: float) -> str:
    """`45 s`, `1 min 40 s`, `10 min`."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    minutes, rest = divmod(round(whole / 10) * 10, 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def _about(experiment: Experiment, saved: Values, missing: str, where: str, more: Sequence[str] = ()) -> Markup:
    chart, claim = chart_of(experiment, saved), _claim(experiment, saved)
    return render(
        TEMPLATE,
        question=experiment.question,
        note=chart["note"] if chart else missing,
        claim=claim,
        where=f"{where}: {machine_words(saved['machine'])}." if chart or claim else "",
        commands=experiment.commands,
        more=more,
    )


def _claim(experiment: Experiment, saved: Values) -> Markup | None:
    """The verdict on its claim, if there is one."""
    claim = next((entry for entry in saved["claims"] if entry["number"] == experiment.number), None)
    if claim is None or claim["verdict"] in OPEN:
        return None
    verdict = SHORT.get(claim["verdict"], claim["verdict"])
    line = Markup("Claim {}, “{}”: <strong>{}</strong>. {}")
    return line.format(claim["number"], claim["sentence"], verdict, claim["measured"])


def _missing(experiment: Experiment) -> str:
    why = experiment.claim.why_not
    return f"Not measured yet: {why}." if why else "Not measured yet; the command below measures it."
