"""What a drafter notes of its rounds stands below them: a policy's arms, drafts prepared ahead."""

from __future__ import annotations

from typing import Any

import pytest

from tests.test_page import address, browser, long_winded, visit  # noqa: F401 - fixtures

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("drafter", "told"),
    [("bandit", ("ucb chose ", "Known before: ", " pulls")), ("ssd", (" prepared for, ", " waited for"))],
)
def test_what_was_noted_of_a_round_is_told(visit: Any, drafter: str, told: tuple[str, ...]) -> None:  # noqa: F811
    page = visit(f"?temperature=1&max_new_tokens=32&drafter={drafter}&seed=4")
    page.run()
    page.ask("e => { const l = e.store.lanes[1]; e.select(l, l.rounds.length - 1); }")
    page.page.wait_for_timeout(300)
    words = page.text(".notes")
    assert all(part in words for part in told), words
