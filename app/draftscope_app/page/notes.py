"""What a card says: which stage it is, how far a measurement is, and why there is no result. Pure; a sentence becomes
text, and markup only if it is `Markup`."""

from __future__ import annotations

from markupsafe import Markup


def stage(number: int, title: str) -> Markup:
    """The heading of a stage of Decide."""
    return Markup('<h2 class="ds-stage"><i>{}</i> {}</h2>').format(number, title)


def progress(sentence: str, share: float | None) -> Markup:
    """A sentence above a bar; `share` None is not known."""
    value = "" if share is None else Markup(' value="{:.3f}"').format(min(max(share, 0.0), 1.0))
    return Markup('<p role="status">{}</p><progress{} aria-label="Measuring"></progress>').format(sentence, value)


def refused(sentence: str) -> Markup:
    return Markup('<p role="alert">{}</p>').format(sentence)


def muted(sentence: str) -> Markup:
    return Markup('<p class="ds-muted">{}</p>').format(sentence)
