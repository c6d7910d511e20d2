"""A recorded run as a class is asked about it: its lanes, their rounds, and guesses that one can read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from draftscope.trace.events import AnyEvent, Round, Verified
from draftscope.trace.result import Result, Trace
from draftscope_app.doors.learn.classroom.questions import Guess

CONTEXT = 90  # characters of the text before the round
FEWEST_GUESSES = 2
WORD = re.compile(r"\s?[A-Za-z]+")


class Lane(Result):
    """One recorded lane."""

    def context(self, number: int) -> str:
        """The end of the text before the round with this index."""
        answers = number > 0 and self.start.rendered  # a question; else the text itself goes on
        begun = f"{self.start.prompt} → " if answers else self.start.prompt
        text = begun + "".join(r.text_delta for r in self.arrivals[:number])
        words = " ".join(text.split())
        return words if len(words) <= CONTEXT else "… " + words[-CONTEXT:].split(" ", 1)[-1]

    def drafted(self) -> Iterator[tuple[int, Round]]:
        """The rounds with a whole chain of guesses, each judged by one decision a guess."""
        for number, round_ in enumerate(self.arrivals):
            if isinstance(round_, Round) and round_.cut is None and _is_chain(round_):
                yield number, round_


def lanes_of(events: Iterable[AnyEvent]) -> dict[str, Lane]:
    """The lanes of a recorded run by name, in order."""
    return {run.start.lane: Lane(run.events) for run in Trace(tuple(events))}


def guesses_of(round_: Round) -> tuple[Guess, ...]:
    """The drafted tokens of a chain with what became of them, then the target's own."""
    judged = {child.node: child for child in verified_in(round_)}
    nodes = []
    for node in round_.nodes:
        child = judged.get(node.id)
        threshold, u = (child.threshold, child.uniform) if child else (None, None)
        nodes.append(Guess(text=readable(node.raw), fate=node.fate, p=node.p, q=node.q, threshold=threshold, u=u))
    kind: Literal["correction", "bonus"] = "correction" if round_.last.kind == "correction" else "bonus"
    return (*nodes, Guess(text=readable(round_.last.raw), fate=kind))


def _is_chain(round_: Round) -> bool:
    parents = [node.parent for node in round_.nodes]
    return len(parents) >= FEWEST_GUESSES and parents == list(range(-1, len(parents) - 1))


def verified_in(round_: Round) -> list[Verified]:
    """Its verified guesses, in the order of verification."""
    return [child for decision in round_.decisions for child in decision.children]


def decoded(raw: str) -> str:
    """A token's bytes as text; bytes that are no whole character, and what is no byte, become a replacement mark."""
    return raw.encode("latin-1", "replace").decode("utf-8", "replace")


def readable(raw: str) -> str:
    """A token so that its spaces and line breaks can be seen."""
    return decoded(raw).replace(" ", "·").replace("\n", "⏎").replace("\t", "⇥")


def is_word(raw: str) -> bool:
    """Whether a token is one that a class can reason about: letters, perhaps after a space."""
    return WORD.fullmatch(raw) is not None
