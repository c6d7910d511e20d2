"""`draftscope drafters`: every drafter, whether its output is exactly the target's, and whether it can run here."""

from __future__ import annotations

import json as jsonlib

import typer

from draftscope_app.cli import options, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import Given, takes

FIELDS = ("name", "exact", "available", "why_not", "paper")  # the contract of --json

app = typer.Typer(add_completion=False)


@app.command()
@takes(loading=options.MODEL_OPTIONS)
def drafters(loading: Given, json: options.Json = False) -> int:
    """List the drafters and which of them can run on these models."""
    chosen, _ = options.models(loading)
    found = options.load(chosen).drafters()
    if json:
        print(jsonlib.dumps([{field: getattr(drafter, field) for field in FIELDS} for drafter in found]))
        return ExitCode.OK
    rows = [
        (each.name, "exact" if each.exact else "lossy", each.why_not or "yes", each.title, each.paper) for each in found
    ]
    terminal.show(terminal.Table(("name", "output", "runs here", "title", "paper"), rows))
    return ExitCode.OK
