"""What a drafter notes of its rounds has its words. That they stand below a round: test_played.py."""

from __future__ import annotations

from typing import Any

import pytest

from draftscope.trace.events import Annotation, Realignment, Tiers, TierWork

pytestmark = pytest.mark.browser


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
