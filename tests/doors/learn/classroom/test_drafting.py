"""A class that drafts: its proposals become a tree that a real target verifies, and the text is the target's own."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from draftscope.base.errors import DraftscopeError
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.fork import ForkPoint
from draftscope.drafters.model.draft_model import CHAIN
from draftscope.drafters.settings import Settings
from draftscope.trace.events import AnyEvent
from draftscope_app.doors.learn.classroom import drafting
from draftscope_app.doors.learn.classroom.drafting import DEPTH, LIKELY, OTHERS, PROPOSALS_MOST, Writing
from draftscope_app.doors.learn.classroom.verifier import EngineVerifier
from tests.doors.learn.classroom.test_rooms import open_room
from tests.support import made_up_heads

PROMPT = "abcab"


def decoder(engine: DecodingEngine):  # type: ignore[no-untyped-def]
    async def decode(prompt: str, settings: Settings, tokens: tuple[int, ...]) -> list[AnyEvent]:
        fork = ForkPoint("class", 0, tokens) if tokens else None
        return list(engine.start(prompt, settings, fork_point=fork).events())

    return decode


def test_the_text_of_a_class_is_the_targets_own(tiny: DecodingEngine) -> None:
    writing = Writing(prompt=PROMPT)
    plain = tiny.decode(PROMPT, drafter="plain", temperature=0.0, max_new_tokens=12).text
    for proposals in ([plain[:2], "be", "c||d"], [], ["zz", " "]):
        writing.proposals = {str(n): text for n, text in enumerate(proposals)}
        asyncio.run(writing.close(decoder(tiny), "draft", "Draft model"))
    assert plain.startswith(writing.text) or writing.ended
    assert [len(round_.emitted) for round_ in writing.rounds] == [round_.kept + 1 for round_ in writing.rounds]
    assert all(0 <= round_.head_kept <= DEPTH for round_ in writing.rounds if round_.head_kept is not None)
    assert writing.rounds[0].kept >= 1 and len(writing.tokens) == sum(len(round_.emitted) for round_ in writing.rounds)
    first = writing.rounds[0].nodes[0]
    assert first["votes"] >= 1 and writing.proposals == {}


def test_proposals_are_counted_shortened_and_follow_the_text() -> None:
    writing = Writing(
        text="Once", proposals={"1": " upon  a time", "2": "upon a time", "3": ", then", "4": "a||b" + "x" * 99}
    )
    assert next(iter(writing.continuations())) == " upon a time"
    assert ", then" in writing.continuations() and not any("||" in text for text in writing.continuations())
    assert max(map(len, writing.continuations())) == 61
    writing.proposals = {str(n): f"word{n}" for n in range(99)}
    assert len(writing.continuations()) == PROPOSALS_MOST


def test_phones_may_choose_likely_words_of_the_target_mixed_with_others(tiny: DecodingEngine) -> None:
    writing = Writing(prompt=PROMPT)
    asyncio.run(writing.offer(decoder(tiny)))
    last = next(
        e for e in tiny.decode(PROMPT, drafter="plain", max_new_tokens=1, record=True).events if e.kind == "round"
    )
    ranked = sorted(zip(last.last.distributions.p, last.last.distributions.raw, strict=True), reverse=True)
    words = [raw for _, raw in ranked if raw.isalpha()]
    assert set(words[:LIKELY]) < set(writing.options) and len(writing.options) == LIKELY + OTHERS
    assert set(writing.options) - set(words[:LIKELY]) == set(words[-OTHERS:])
    writing.proposals = {"1": writing.options[0]}
    asyncio.run(writing.close(decoder(tiny), "", ""))
    assert writing.options == ()


@pytest.mark.parametrize(
    ("raws", "options", "first"),
    [((" while", " she", ",", "ly"), {"while", "she"}, " while"), (("The", " she", "An"), {"The", "An"}, "while")],
)
def test_the_first_word_follows_a_space_where_the_target_would_write_one(
    raws: tuple[str, ...], options: set[str], first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    probabilities = [0.5, 0.3, 0.1, 0.1][: len(raws)]
    seen = SimpleNamespace(last=SimpleNamespace(distributions=SimpleNamespace(p=probabilities, raw=raws)))
    monkeypatch.setattr(drafting, "_first", lambda _: seen)

    async def decode(prompt: str, settings: Settings, tokens: tuple[int, ...]) -> list[AnyEvent]:
        return []

    writing = Writing(prompt="One morning,", proposals={"1": "while"})
    asyncio.run(writing.offer(decode))
    assert set(writing.options) == options and list(writing.continuations()) == [first]
    for round_closed in (False, True):  # what was given stands beside what is written, in every round
        shown = writing.shown(round_closed)
        assert (shown["prompt"], shown["context"], shown["text"]) == ("One morning,", "", "")
    writing.text = "while she"
    assert writing.shown(False)["prompt"] == "One morning," and writing.shown(False)["context"] == "while she"


def test_a_hidden_proposal_is_in_no_draft_and_in_no_state(tiny: DecodingEngine) -> None:
    writing = Writing(prompt=PROMPT, proposals={"1": "ab", "2": "xyz", "3": "xyz"})
    assert writing.proposed()[0] == {"text": "xyz", "votes": 2, "hidden": False}
    writing.hidden = {"xyz"}
    assert list(writing.continuations()) == ["ab"] and writing.proposed()[0]["hidden"]
    asyncio.run(writing.close(decoder(tiny), "", ""))
    assert [node["text"] for node in writing.rounds[0].nodes] == ["a", "b"] and "xyz" not in str(writing.shown(True))
    assert sum(node["votes"] for node in writing.rounds[0].nodes) == 2


def test_words_are_shown_only_after_the_round_closes() -> None:
    _, room, _ = open_room()
    phone, other = room.join(), room.join()
    with pytest.raises(DraftscopeError, match="No models"):
        room.turn("draft")
    room.drafts = True
    room.turn("draft")
    room.propose(phone, "secret")
    assert len(room.voters()) == 1 and "secret" not in str(room.state_for(other)) and "secret" not in str(room.state())
    assert room.state_for(phone)["proposed"] == "secret"
    for text, sentence in (("x" * 61, "61 characters"),):
        with pytest.raises(DraftscopeError, match=sentence):
            room.propose(phone, text)
    room.propose(phone, " ")
    assert not room.voters()
    room.turn("next")
    assert room.phase == "verify"
    with pytest.raises(DraftscopeError, match="closed"):
        room.propose(phone, "late")
    with pytest.raises(DraftscopeError, match="verifying"):
        room.turn("next")


@pytest.mark.usefixtures("glimpsed")
def test_a_class_competes_with_a_made_up_head() -> None:
    choices = [
        SimpleNamespace(name=info.name, title=info.title, available=True) for info in (made_up_heads.INFO, CHAIN)
    ]
    status = SimpleNamespace(drafters=choices[::-1])
    admission: Any = SimpleNamespace(engine=SimpleNamespace(status=status))
    assert EngineVerifier(admission).head() == ("glimpse", "A glimpse, chain")
