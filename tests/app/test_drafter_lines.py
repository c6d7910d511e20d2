"""The list of drafters: every one that comes with the project stands in a group with a line."""

from __future__ import annotations

from draftscope import drafters
from draftscope_app.engine.jobs import DrafterChoice
from draftscope_app.page.drafter_lines import GROUPS, LINES, OTHER, lines


def choice(name: str, why_not: str = "") -> DrafterChoice:
    return DrafterChoice(name, name.title(), True, not why_not, why_not, ())


def test_every_drafter_has_a_line_and_no_line_is_of_none() -> None:
    built_in = {name for name, info in drafters.known().items() if not info.source}
    assert set(LINES) == built_in
    assert all(group in GROUPS and does for group, does in LINES.values())


def test_groups_come_in_order_and_what_can_run_first() -> None:
    listed = lines(
        [choice("bandit"), choice("medusa", "no medusa head"), choice("hybrid"), choice("ngram"), choice("my")]
    )
    assert [line.name for line in listed] == ["hybrid", "medusa", "ngram", "bandit", "my"]
    assert listed[1].lacks == "no medusa head" and listed[4].group == OTHER
    assert listed[0].gain > 0 and listed[2].gain == 0
