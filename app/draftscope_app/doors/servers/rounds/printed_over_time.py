"""Acceptance over time, as `draftscope rounds` prints it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from draftscope.log.alarm import WHY, RecentAcceptance
from draftscope.log.entries import LoggedRound, RoundsRead, tally
from draftscope.log.over_time import after_guess, best_length, by_length, windows
from draftscope_app.cli import terminal

SHORT = 8  # rounds, below which there is nothing over time
MOST = 8  # rows
HEAD = ("rounds", "from token", "kept of drafted")


def show(log: RoundsRead) -> None:
    """Prints the longest request's acceptance in windows, and what a mean does not say of all rounds."""
    requests: dict[str, list[LoggedRound]] = {}
    for round_ in log.rounds:
        requests.setdefault(round_.request, []).append(round_)
    longest = max(requests.values(), key=len, default=[])
    if len(longest) >= SHORT:
        print()
        title = "Acceptance over time" + (", of the longest request" if len(requests) > 1 else "")
        terminal.show(
            terminal.Table(("rounds", "from token", "kept of drafted"), _windows(longest), frozenset(), title)
        )
        for sentence in sentences(longest):
            print(sentence)
    recent = RecentAcceptance()
    for entry in (*log.tallies, *(tally([round_]) for round_ in log.rounds)):
        recent.add(entry)
    if recent.alarm:
        print(f"\nAlarm: {recent.alarm}: {WHY[recent.alarm]}.")


def _windows(rounds: Sequence[LoggedRound]) -> list[tuple[str, str, str]]:
    rows = []
    for part in windows(rounds, MOST):
        position = rounds[part.first].position
        kept = f"{part.accepted} of {part.drafted}" if part.drafted else "nothing drafted"
        last = part.first + part.rounds
        rows.append((f"{part.first + 1} to {last}", "" if position is None else str(position), kept))
    return rows


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
