"""What a drawer says while something is measured, and why there is no result. Pure."""

from __future__ import annotations

from html import escape


def progress(shown: str, share: float | None) -> str:
    """A sentence, which is HTML, above a bar; `share` None is not known."""
    value = "" if share is None else f' value="{min(max(share, 0.0), 1.0):.3f}"'
    return f'<p role="status">{shown}</p><progress{value} aria-label="Measuring"></progress>'


def refused(sentence: str) -> str:
    return f'<p role="alert">{escape(sentence)}</p>'


def muted(sentence: str) -> str:
    return f'<p class="ds-muted">{escape(sentence)}</p>'
