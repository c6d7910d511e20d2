"""Verdicts and charts as a file: `draftscope claims --save` writes it, the page reads it. No hand types into it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from draftscope.base.assets import assets
from draftscope.base.errors import write_text
from draftscope.claims.claim import Claim, JudgedClaim
from draftscope.claims.experiments import EXPERIMENTS, Experiment
from draftscope.claims.saved_results import SavedResults, read
from draftscope.claims.table import CLAIMS
from draftscope.forecast.economics import forecast_of_claim

FILE = "claims.json"


def claim_values(claim: Claim, judged: JudgedClaim) -> dict[str, Any]:
    """A claim and its verdict as plain values."""
    fields = {"number": claim.number, "sentence": claim.sentence, "command": claim.command, "rule": claim.rule}
    return {**fields, **asdict(judged), "forecast": forecast_of_claim(claim.number)}


def experiment_values(experiment: Experiment, evidence: SavedResults) -> dict[str, Any]:
    """An experiment and its chart as plain values; None for a chart whose results are missing."""
    chart = experiment.drawn(evidence)
    fields = {"name": experiment.name, "commands": list(experiment.commands)}
    return {**fields, "chart": asdict(chart) if chart is not None else None}


def found_in(evidence: SavedResults, claims: Iterable[Claim] = CLAIMS) -> dict[str, Any]:
    """All verdicts and charts as plain values."""
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": dict(evidence.machine),
        "claims": [claim_values(claim, claim.judged(evidence)) for claim in claims],
        "experiments": [experiment_values(experiment, evidence) for experiment in EXPERIMENTS],
    }


def save(path: Path, evidence: SavedResults, claims: Iterable[Claim] = CLAIMS) -> None:
    """Writes all verdicts and charts, with the date and the machine of the results. Raises `DraftscopeError` if it
    cannot."""
    write_text(path, json.dumps(found_in(evidence, claims), indent=1) + "\n")


def shipped() -> Mapping[str, Any]:
    """The latest verdicts and charts among the shipped results; without any, all claims as not measured."""
    files = sorted((assets() / "results").glob(f"*/{FILE}"))
    results = [read(file, "claims") for file in files]
    if results:
        return max(results, key=lambda result: str(result["created"]))
    return found_in(SavedResults()) | {"created": ""}
