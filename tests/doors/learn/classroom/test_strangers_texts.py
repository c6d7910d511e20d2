"""What phones and presenters send is text and numbers that everybody can be told, and a vote of each phone."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from draftscope.base.errors import DraftscopeError
from draftscope.decode.engine import DecodingEngine
from draftscope_app.doors.learn.classroom import drafting
from draftscope_app.doors.learn.classroom.class_routes import KEY, Classroom
from draftscope_app.doors.learn.classroom.deck import read
from draftscope_app.doors.learn.classroom.drafting import Writing
from draftscope_app.doors.learn.classroom.rooms import Rooms
from tests.doors.learn.classroom.class_server import client
from tests.doors.learn.classroom.test_actions import PHONES, PRESENTERS, Played, played
from tests.doors.learn.classroom.test_drafting import PROMPT, decoder
from tests.doors.learn.classroom.test_questions import FULL
from tests.doors.learn.classroom.test_rooms import DECK, open_room

HALF = '"\\ud800"'
BODIES = (
    f'{{"phone": {HALF}}}', f'{{"text": {HALF}}}', f'{{"hide": {HALF}}}', f'{{"action": {HALF}}}', f'{{{HALF}: 1}}',
    f'{{"rows": [[{HALF}]]}}', '{"text": "\udced\udca0\udc80"}', '{"q": NaN}', '{"q": [Infinity]}', '{"q": -1e400}',
    "[" * 1900, '{"a":' * 400, '"text"', "null", "\udcff",
)  # fmt: skip
ODD = (
    '{"q": ' + "9" * 1900 + "}", '{"phone": 1}', '{"phone": null}', '{"action": ["next"]}', '{"hide": {"a": 1}}',
    '{"link": 1}', '{"phone": "", "question": 1e9}', '{"action": "ask:' + "9" * 1900 + '"}',
)  # fmt: skip
NASTY = (
    "||", "||||", " || ", "|", "\x00", "\u202eabc", "a\u0301" * 30, "\ufeff", "\U0001f469\u200d\U0001f680", "</s>",
    "<|endoftext|>", "\\ud800", "a||b", "\n\n", "\ufffd", "a" * 60,
)  # fmt: skip


@pytest.mark.parametrize("number", range(len(BODIES + ODD)))
def test_a_body_that_is_none_is_refused_in_a_sentence_by_every_post(number: int) -> None:
    body = (BODIES + ODD)[number].encode("utf-8", "surrogateescape")

    async def send() -> None:
        every = Rooms(9, 9)
        room = every.open(DECK)
        room.join()
        async with client(Classroom(every), "192.0.2.1") as http:
            for what in sorted({what for what, _ in (PRESENTERS | PHONES).values()}):
                answer = await http.post(f"/class/{room.code}/{what}", content=body, headers={KEY: room.key})
                refused = answer.status_code == 409 and answer.json()["error"].endswith(".")
                assert refused or (number >= len(BODIES) and answer.status_code == 200), (what, answer.text)
        json.dumps(room.state(), ensure_ascii=False).encode()

    asyncio.run(send())


@pytest.mark.parametrize("number", range(len(NASTY)))
def test_whatever_a_phone_proposes_the_class_goes_on_with_the_targets_text(tiny: DecodingEngine, number: int) -> None:
    async def play(one: Played) -> None:
        await one.act("draft")
        proposal = {"phone": one.other, "text": NASTY[number]}
        answer = await one.http.post(f"/class/{one.room.code}/propose", json=proposal)
        assert answer.status_code in (204, 409)
        for step in ("propose", "proposals", "next"):
            assert (await one.act(step)).status_code in (200, 204)
        assert one.room.phase == "drafted"

    played(tiny, play)


@pytest.mark.parametrize("field", ["ask", "said", "lesson", "context", "options"])
def test_a_deck_with_half_a_character_is_refused(tmp_path: Any, field: str) -> None:
    half = ["a", "\ud800"] if field == "options" else "\ud800"
    (tmp_path / "deck.json").write_text(json.dumps({"title": "x", "steps": [FULL | {field: half}]}))
    with pytest.raises(DraftscopeError, match=r"step 1: (.*unicode|The question '.*' contains .* half of a character)"):
        read(tmp_path / "deck.json")


@pytest.mark.parametrize("number", ["0" * 5000, "9" * 5000, "-1", "nan", "\u0663", "1e9"])
def test_a_lessons_number_is_any_text(number: str) -> None:
    async def ask() -> int:
        every = Rooms(9, 9)
        room = every.open(DECK)
        async with client(Classroom(every), "192.0.2.1") as http:
            shown = {"title": "Lesson 1", "at": 0, "of": 3, "words": "Look."}
            await http.post(f"/class/{room.code}/show", json=shown, headers={KEY: room.key})
            return (await http.get(f"/class/{room.code}/lesson", params={"number": number})).status_code

    assert asyncio.run(ask()) in (200, 409)


def test_votes_never_exceed_the_phones_that_joined() -> None:
    _, room, _ = open_room(phones=3)
    room.drafts = True
    room.turn("draft")
    for n in range(9):  # proposes and leaves, again and again, as another phone
        try:
            room.propose(room.join(), f"word{n}")
        except DraftscopeError:
            assert n >= 3
    state = room.state()
    assert state["answered"] == 3 == state["joined"] == len(room.phones)
    room.turn("back")
    assert room.state()["answered"] == 0
    for token in room.phones:
        room.answer(token, 0, 1)
        room.come(token)
    room.leave(token)  # the phone left; its vote stays, and so it is counted
    room.turn("next")
    state = room.state()
    assert state["tally"] == [0, 3, 0] and state["answered"] == 3 == state["joined"]


def test_a_phone_that_was_forgotten_votes_no_more() -> None:
    _, room, _ = open_room(phones=2)
    room.drafts = True
    gone, here = room.join(), room.join()
    room.come(here)
    room.turn("draft")
    room.join()
    assert gone not in room.phones
    for act in (lambda: room.propose(gone, "word"), lambda: room.answer(gone, 0, 0), lambda: room.come(gone)):
        with pytest.raises(DraftscopeError, match="not in the room"):
            act()
    assert not room.voters()


def test_a_vote_counts_for_one_of_the_nodes_of_which_one_begins_another() -> None:
    paths, parents = [b" a", b" an", b" an old", b" a b", b"\xf0\x9f"], [-1, -1, 1, 0, -1]
    votes = {" a": 4, " an old": 2, " an": 1, " a b": 3, "\U0001f680": 5, "no": 9}
    assert drafting._votes(paths, parents, votes) == [7, 3, 2, 3, 5]


def test_siblings_have_no_more_votes_than_phones(tiny: DecodingEngine) -> None:
    proposals = ("a", "ab", "abc", "b", "bc", "c")
    writing = Writing(prompt=PROMPT, proposals={str(n): text for n, text in enumerate(proposals)})
    asyncio.run(writing.close(decoder(tiny), "", ""))
    nodes = writing.rounds[0].nodes
    for parent in range(-1, len(nodes)):
        most = nodes[parent]["votes"] if parent >= 0 else len(proposals)
        assert sum(node["votes"] for node in nodes if node["parent"] == parent) <= most
    assert sum(node["votes"] for node in nodes if node["parent"] == -1) == len(proposals)
