"""An experiment as HTML: its question, what its chart shows, where it was measured, its verdict, its commands. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from draftscope.claims.claim import ClaimVerdict
from draftscope.claims.experiments import Experiment

Values = Mapping[str, Any]  # what `draftscope claims --save` writes
OPEN = (ClaimVerdict.UNMEASURED, ClaimVerdict.UNTESTED)


def chart_of(experiment: Experiment, saved: Values) -> Values | None:
    """Its chart in a file of results; None where they lack what it needs."""
    found = next((each for each in saved.get("experiments", ()) if each["name"] == experiment.name), None)
    return found["chart"] if found is not None else None


def about(experiment: Experiment, saved: Values) -> str:
    """All that is said beside the chart."""
    chart = chart_of(experiment, saved)
    parts = [f'<p class="ds-question">{escape(experiment.question)}</p>']
    parts += [f"<p>{escape(chart['note'])}</p>"] if chart else [f"<p>{escape(_missing(experiment))}</p>"]
    claim = next((each for each in saved["claims"] if each["number"] == experiment.number), None)
    if claim is not None and claim["verdict"] not in OPEN:
        parts.append(
            f"<p>Claim {claim['number']}, “{escape(claim['sentence'])}”: <strong>{escape(claim['verdict'])}</strong>. "
            f"{escape(claim['found'])}</p>"
        )
    if chart:
        parts.append(f'<p class="ds-muted">{escape(_where(saved))}</p>')
    commands = "".join(f"<li><code>{escape(command)}</code></li>" for command in experiment.commands)
    return f"{''.join(parts)}<ul>{commands}</ul>"


def progress(command: str, spent: float, most: float) -> str:
    """While it runs."""
    share = min(spent / most, 1.0)
    return (
        f'<p role="status">Running <code>{escape(command)}</code>: {spent:.0f} s of at most {most:.0f} s.</p>'
        f'<progress value="{share:.3f}" aria-label="Running"></progress>'
    )


def refused(sentence: str) -> str:
    return f'<p class="ds-advice-note" role="alert">{escape(sentence)}</p>'


def _missing(experiment: Experiment) -> str:
    why = experiment.claim.why_not
    return f"Not measured yet: {why}." if why else "Not measured yet; the command below measures it."


def _where(saved: Values) -> str:
    machine = ", ".join(f"{name} {value}" for name, value in saved["machine"].items() if value != "")
    return f"Measured on: {machine}."
