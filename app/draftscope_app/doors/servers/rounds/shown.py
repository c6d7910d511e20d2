"""What a log says, as rows for a table; on the command line and on the page."""

from __future__ import annotations

from draftscope.log.entries import RoundsRead
from draftscope.log.log_summary import RoundsSummary

POSITIONS = ("position", "kept", "of all rounds", "if it was reached")


def counted(summary: RoundsSummary) -> list[tuple[str, str]]:
    """A row for each number that the log knows."""
    lengths = None if summary.lengths is None else " to ".join(dict.fromkeys(map("{:.2f}".format, summary.lengths)))
    rows = {
        "requests": number(summary.requests),
        "rounds with a draft": number(summary.rounds),
        "drafted tokens": number(summary.drafted),
        "kept": number(summary.accepted),
        "tokens written": number(summary.emitted),
        "tokens a round, with the target's own": decimals(summary.tokens_per_round),
        "the same, each request alike": decimals(summary.tokens_per_round_by_request),
        "tokens a round, as the engine says": lengths,
        "kept of the drafted tokens": share(summary.acceptance_rate),
        "seconds of all rounds": decimals(summary.seconds),
        "tokens/s, one round after the other": decimals(summary.tokens_per_s),
    }
    return [(name, value) for name, value in rows.items() if value is not None]


def by_position(summary: RoundsSummary) -> list[tuple[str, str, str, str]]:
    """A row for each place of a draft."""
    return [
        (str(item.position), number(item.kept) or "", share(item.share) or "", share(item.conditional) or "-")
        for item in summary.positions or ()
    ]


def number(value: float | None) -> str | None:
    return None if value is None else f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def decimals(value: float | None) -> str | None:
    return None if value is None else f"{value:,.2f}"


def share(value: float | None) -> str | None:
    return None if value is None else f"{value:.1%}"


def unknown(summary: RoundsSummary) -> str:
    """A sentence that names what the log does not know; empty if nothing."""
    *most, last = summary.unknown or ("",)
    words = f"{', '.join(most)} or {last}" if most else last
    return f"This log does not say {words}." if last else ""


def said_of(log: RoundsRead) -> str:
    """A sentence about what wrote the log, and what it says about itself."""
    said = "; ".join(f"{name} {value}" for name, value in log.facts if name != "created")
    return f"This is {log.source}{f': {said}' if said else ''}."
