"""What a card says: which stage it is, how far a measurement is, and why there is no result. Pure."""

from __future__ import annotations

from html import escape


def stage(number: int, title: str) -> str:
    """The heading of a stage of Decide."""
    return f'<h2 class="ds-stage"><i>{number}</i> {escape(title)}</h2>'


def progress(shown: str, share: float | None) -> str:
    """A sentence, which is HTML, above a bar; `share` None is not known."""
    value = "" if share is None else f' value="{min(max(share, 0.0), 1.0):.3f}"'
    return f'<p role="status">{shown}</p><progress{value} aria-label="Measuring"></progress>'


def refused(sentence: str) -> str:
    return f'<p role="alert">{escape(sentence)}</p>'


def muted(sentence: str) -> str:
    return f'<p class="ds-muted">{escape(sentence)}</p>'
