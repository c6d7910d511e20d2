"""Whether a draft model or a head drafts at random here: none of its first guesses is accepted."""

from __future__ import annotations

from collections.abc import Iterable

from draftscope.trace.events import Round, RunStart

GUESSES = 100  # of them not one is accepted


def unhelpful(start: RunStart, rounds: Iterable[Round]) -> str:
    """A sentence if so; empty while fewer guesses were made, if one was accepted, and where no model drafts."""
    roles = {model.role for model in start.models}
    drafted = 0
    for event in rounds if roles & {"draft", "head"} and not start.synthetic else ():
        drafted += event.drafted
        if event.accepted:
            return ""
        if drafted >= GUESSES:
            remedy = (
                "'draftscope inspect' says what may be wrong with the head"
                if "head" in roles
                else "choose a draft model that was made for this target"
            )
            return f"None of the first {drafted} guesses of '{start.drafter}' was accepted; {remedy}."
    return ""
