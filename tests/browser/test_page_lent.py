"""The page that tests share one after the other: whoever does not leave it as it was opened fails."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.lent import Lent

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_a_page_that_is_not_left_as_it_was_opened_fails_and_is_lent_to_nobody_else(
    regulars: list[Any], address: str
) -> None:
    shared = Lent(regulars[0], address)
    page = shared.take("?gamma=2")
    page.ask("e => e.unfold.set('Compare', true)")
    page.page.evaluate("() => Draftscope.flipTheme()")
    shared.give_back()
    again = shared.take("?temperature=0.5")
    assert again is page and not page.page.is_closed()
    page.page.evaluate("() => { document.querySelector('nav').append('left behind'); }")
    with pytest.raises(AssertionError, match="left behind"):
        shared.give_back()
    assert page.page.is_closed()
