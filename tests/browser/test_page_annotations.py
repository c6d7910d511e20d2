"""What a drafter notes of its rounds stands below them: a policy's arms, drafts prepared ahead."""

from __future__ import annotations

from typing import Any

import pytest

from draftscope.trace.events import Annotation, Realignment, Tiers, TierWork

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("drafter", "told"),
    [("bandit", ("ucb chose ", "Before this round: ", " pulls")), ("ssd", (" pre-drafted, ", " the target waited "))],
)
def test_what_was_noted_of_a_round_is_told(visit: Any, drafter: str, told: tuple[str, ...]) -> None:
    page = visit(f"?temperature=1&max_new_tokens=32&drafter={drafter}&seed=4")
    page.run()
    page.ask("e => { const l = e.store.lanes[1]; e.cursor.select(l, l.rounds.length - 1); }")
    page.page.wait_for_timeout(300)
    words = page.text(".notes")
    assert all(part in words for part in told), words


@pytest.mark.parametrize(
    ("note", "words"),
    [
        (
            Tiers(tiers=[TierWork(model="middle", forwards=1), TierWork(model="<b>small</b>", forwards=3)]),
            "middle 1 forward, <b>small</b> 3 forwards",
        ),
        (
            Realignment(drafted=1, proposed=2, read_again=0),
            "1 draft-model token became 2 target tokens; 0 processed again",
        ),
    ],
)
def test_each_kind_of_note_has_its_words(functions: Any, note: Annotation, words: str) -> None:
    assert functions.evaluate("(note) => Inside.annotationWords({ annotations: [note] })", note.model_dump()) == words
