"""The advice as settings of other engines. Each says with what it was compared; none was started with these values.

A schedule by batch size is written where the engine has one. Trees are turned into the best chain of the same kind of
draft, and drafters that an engine does not have are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from draftscope.advise.candidates import Candidate
from draftscope.drafters.registry import chain_of
from draftscope.servers.programs import program_list
from draftscope.servers.programs.program import ScheduleRange, WantedChain

MODEL = "DRAFTER"  # stands for the drafter's folder or id where it is not known


@dataclass(frozen=True)
class Ready:
    """Settings of one engine; empty where it has nothing of the kind."""

    engine: str
    settings: str
    checked: str  # with which version's source or documentation, or that it was not
    note: str = ""


def ready(chosen: Candidate, schedule: Sequence[ScheduleRange], model: str = MODEL) -> list[Ready]:
    """Settings for every engine; for a tree, of the chain with as many levels."""
    kind, form = chain_of(chosen.drafter), chosen.form
    wanted = WantedChain(kind, len(form) if form else 4, schedule, model)
    note = "" if chosen.gamma is not None else f"'{chosen.name}' is a tree; this is a chain, which was not measured."
    lacks = f"has no drafter like '{chosen.drafter}'"
    return [
        Ready(program.title, program.settings(wanted), program.checked, note)
        if kind in program.drafters
        else Ready(program.title, "", program.checked, lacks)
        for program in program_list.PROGRAMS
        if program.settings is not None
    ]
