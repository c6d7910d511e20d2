"""Numbers as words, called under node as the page calls them."""

from __future__ import annotations

from draftscope.base.progress import time_left
from tests.support.node import call

SECONDS = (0.0, 3.0, 15.0, 24.9, 26.0, 44.0, 89.0, 91.0, 400.0)


def test_an_estimate_has_the_same_words_on_the_page_and_in_a_terminal() -> None:
    """Of a measurement of 20 seconds both said "under half a minute left" from its beginning to its end."""
    words = [time_left(seconds) for seconds in SECONDS]
    assert call(["base/format.js"], [("timeLeft", [seconds]) for seconds in (*SECONDS, None)]) == [*words, ""]
    assert words[:4] == ["a few seconds left"] * 2 + ["about 15 s left", "about 25 s left"]
    assert words[-2:] == ["about 2 min left", "about 7 min left"] and time_left(None) == ""
