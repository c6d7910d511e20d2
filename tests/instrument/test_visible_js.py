"""Which settings are read is decided twice, in the browser that shows them and on the server that sends them: alike."""

from __future__ import annotations

from itertools import product
from typing import Any, get_args

from draftscope.drafters import known
from draftscope_app.page.controls import is_read, options, visible_if
from tests.support.node import call

STRANGERS = ((), ("rule",), ("lenience",), ("agreement", "rule"), ("confidence",), ("draft_length",), tuple(options()))


def settings() -> list[dict[str, Any]]:
    """Every combination of values of the options on which others depend."""
    others = list(dict.fromkeys(other for other, _ in visible_if().values()))
    chosen = product(*(get_args(options()[other].annotation) for other in others))
    return [dict(zip(others, values, strict=True)) for values in chosen]


def test_the_browser_shows_what_the_server_reads() -> None:
    """Of every drafter, and of drafters from elsewhere that read any part of the options."""
    reads = {tuple(info.uses) for info in known().values()} | set(STRANGERS)
    cases = [(name, uses, values) for name in options() for uses in sorted(reads) for values in settings()]
    expected = [is_read(*case) for case in cases]
    shown = call(["host/visible.js"], [("isRead", [name, uses, values, visible_if()]) for name, uses, values in cases])
    wrong = [case for case, one, other in zip(cases, shown, expected, strict=True) if one != other]
    assert not wrong and True in expected and False in expected
