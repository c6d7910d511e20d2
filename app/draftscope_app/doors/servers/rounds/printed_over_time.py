"""Acceptance over time: as `draftscope rounds` prints it, and as the card draws it.

Of the longest request's rounds; of a server's log, which counts rounds together, of its lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from draftscope.log.alarm import WHY, RecentAcceptance
from draftscope.log.entries import LoggedRound, RoundsRead, tally
from draftscope.log.over_time import JudgedRound, Window, after_guess, best_length, by_length, windows
from draftscope_app.cli import terminal

SHORT = 8  # rounds or lines, below which there is nothing over time
MOST = 8  # rows


class Line(NamedTuple):
    """A server's words about the rounds since the line before."""

    drafted: int
    accepted: int


@dataclass(frozen=True)
class Course:
    """What was counted one after the other, at least `SHORT`."""

    title: str
    things: str  # rounds, or lines of a log
    axis: str  # what a place is
    counted: Sequence[JudgedRound]
    places: Sequence[float]  # of each: tokens before it, minutes since the log began, or its number
    sentences: tuple[str, ...] = ()

    def rows(self) -> list[tuple[str, str, str]]:
        """A row for each of a few windows."""
        parts = windows(self.counted, MOST)
        return [(self._span(part), f"{round(self.places[part.first], 1):g}", _kept(part)) for part in parts]

    def drawn(self) -> dict[str, Any]:
        """A point for each window that drafted something: where it begins, what it kept, and both in words."""
        points = [
            {
                "x": self.places[part.first],
                "y": part.accepted / part.drafted,
                "words": f"{self._named(part)}: {_kept(part)} kept",
            }
            for part in windows(self.counted)
            if part.drafted
        ]
        return {"title": self.title, "axis": self.axis, "points": points, "sentences": self.sentences}

    def _named(self, part: Window) -> str:
        return f"{self.things if part.rounds > 1 else self.things.removesuffix('s')} {self._span(part)}"

    def _span(self, part: Window) -> str:
        last = part.first + part.rounds
        return f"{part.first + 1} to {last}" if part.rounds > 1 else str(last)


def course(log: RoundsRead) -> Course | None:
    """What a log says over time; None where that is too little."""
    requests: dict[str, list[LoggedRound]] = {}
    for round_ in log.rounds:
        requests.setdefault(round_.request, []).append(round_)
    longest = max(requests.values(), key=len, default=[])
    if len(longest) >= SHORT:
        title = "Acceptance over time" + (", of the longest request" if len(requests) > 1 else "")
        axis, places = _placed("token", [logged.position for logged in longest], "round")
        return Course(title, "rounds", axis, longest, places, tuple(sentences(longest)))
    said = [tally for tally in log.tallies if tally.drafted is not None and tally.accepted is not None]
    if len(said) < SHORT:
        return None
    minutes = [None if tally.at_ms is None else tally.at_ms / 60_000 for tally in said]
    axis, places = _placed("minute", minutes, "line")
    lines = [Line(tally.drafted or 0, tally.accepted or 0) for tally in said]
    return Course("Acceptance over time", "lines", axis, lines, places)


def alarm(log: RoundsRead) -> str:
    """A sentence where acceptance is near nothing or near all at the end; empty otherwise."""
    recent = RecentAcceptance()
    for entry in (*log.tallies, *(tally([round_]) for round_ in log.rounds)):
        recent.add(entry)
    return f"Alarm: {recent.alarm}: {WHY[recent.alarm]}." if recent.alarm else ""


def show(log: RoundsRead) -> None:
    """Prints acceptance in windows, and what a mean does not say of all rounds."""
    seen = course(log)
    if seen is not None:
        print()
        heads = (seen.things, f"from {seen.axis}", "kept of drafted")
        terminal.show(terminal.Table(heads, seen.rows(), frozenset(), seen.title))
        for sentence in seen.sentences:
            print(sentence)
    if said := alarm(log):
        print(f"\n{said}")


def _placed(axis: str, places: Sequence[float | None], otherwise: str) -> tuple[str, Sequence[float]]:
    """Where each thing is: on that axis if all are known to be, and never back; else by its number."""
    known = [place for place in places if place is not None]
    if len(known) == len(places) and known == sorted(known):
        return axis, known
    return otherwise, range(1, len(places) + 1)


def _kept(part: Window) -> str:
    return f"{part.accepted} of {part.drafted}" if part.drafted else "nothing drafted"


def sentences(rounds: Sequence[LoggedRound]) -> Iterator[str]:
    """Whether guesses depend on the one before, and what the mean says of long drafts."""
    seen = after_guess(rounds)
    if seen.after_kept and seen.after_refused:
        yield (
            f"After a kept guess {seen.kept_after_kept} of {seen.after_kept} are kept, after a refused one "
            f"{seen.kept_after_refused} of {seen.after_refused}: "
            + ("guesses are not independent." if seen.dependent else "too alike to say that one depends on the other.")
        )
    lengths = by_length(rounds)
    if len(lengths) < 2 or any(round_.parents is not None for round_ in rounds):
        return
    last = lengths[-1]
    yield (
        f"Drafts of {last.length} tokens write {last.measured:.2f} tokens a round; by the mean acceptance it would be "
        f"{last.by_mean:.2f}."
    )
    costs = _costs(rounds)
    if costs is not None:
        real = best_length([length.measured for length in lengths], *costs)
        mean = best_length([length.by_mean for length in lengths], *costs)
        yield f"Of these lengths {real} pays best by the rounds, {mean} by the mean, if all cost the same to check."


def _costs(rounds: Sequence[LoggedRound]) -> tuple[float, float] | None:
    """Milliseconds of a draft step and of the rest of a round; None where the log has no times of drafting."""
    timed = [round_ for round_ in rounds if round_.ms is not None and round_.draft_ms is not None and round_.drafted]
    if not timed:
        return None
    drafting, whole = sum(round_.draft_ms or 0 for round_ in timed), sum(round_.ms or 0 for round_ in timed)
    return drafting / sum(round_.drafted for round_ in timed), (whole - drafting) / len(timed)
