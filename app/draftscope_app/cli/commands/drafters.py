"""`draftscope drafters`: every drafter, whether its output is exactly the target's, and whether it can run here."""

from __future__ import annotations

import json as jsonlib
from typing import TYPE_CHECKING

from draftscope_app.cli import command_options, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import Given, takes

if TYPE_CHECKING:
    from draftscope.decode.availability import Availability

FIELDS = ("name", "exact", "unchecked", "available", "why_not", "paper")  # the contract of --json


@takes(loading=command_options.MODEL_OPTIONS)
def drafters(loading: Given, json: command_options.Json = False) -> int:
    """List the drafters and which of them can run on these models."""
    chosen, _ = command_options.models(loading)
    choices = command_options.load(chosen).drafters()
    if json:
        print(jsonlib.dumps([{field: getattr(drafter, field) for field in FIELDS} for drafter in choices]))
        return ExitCode.OK
    rows = [(d.name, _output(d), d.why_not or "yes", d.title, d.paper) for d in choices]
    terminal.show(terminal.Table(("name", "output", "runs here", "title", "paper"), rows))
    return ExitCode.OK


def _output(drafter: Availability) -> str:
    """Whether the output is the target's; "unchecked" where only another package says so."""
    if not drafter.exact:
        return "lossy"
    return "unchecked" if drafter.unchecked else "exact"
