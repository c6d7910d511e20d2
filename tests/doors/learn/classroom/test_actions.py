"""Every action of a room: twice, late, from a second window, out of order, and while the target verifies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import cache
from typing import Any

import httpx
import pytest

from draftscope.base.errors import DraftscopeError
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.trace.events import AnyEvent
from draftscope.trace.result import Result
from draftscope_app.doors.learn.classroom.class_routes import KEY, Classroom
from draftscope_app.doors.learn.classroom.drafting import DEPTH
from draftscope_app.doors.learn.classroom.room import IDLE_S, Room
from draftscope_app.doors.learn.classroom.rooms import Rooms
from tests.doors.learn.classroom.class_server import client
from tests.doors.learn.classroom.test_class_routes import STEP, TinyVerifier
from tests.doors.learn.classroom.test_drafting import PROMPT
from tests.doors.learn.classroom.test_rooms import DECK, TAKEN, Clock

PRESENTERS = {
    "next": ("turn", {"action": "next"}),
    "back": ("turn", {"action": "back"}),
    "draft": ("turn", {"action": "draft"}),
    "look": ("turn", {"action": "look"}),
    "ask:0": ("turn", {"action": "ask:0"}),
    "ask:2": ("turn", {"action": "ask:2"}),
    "end": ("turn", {"action": "end"}),
    "unknown": ("turn", {"action": "verify"}),
    "lesson": ("show", STEP),
    "live question": ("take", TAKEN.model_dump()),
    "proposals": ("proposals", {}),
    "hide": ("proposals", {"hide": "abc"}),
    "show": ("proposals", {"show": "abc"}),
    "qr": ("qr", {"link": "http://a/"}),
}
PHONES = {
    "join": ("join", {}),
    "answer": ("answer", {"question": 0, "option": 1}),
    "late answer": ("answer", {"question": 2, "option": 1}),
    "propose": ("propose", {"text": "abc"}),
    "propose nothing": ("propose", {"text": ""}),
}
ACTIONS = sorted(PRESENTERS | PHONES)
STEPS = ("next", "back")  # lead on each time
WAYS = {  # into each phase, from the lobby
    "lobby": (), "lesson": ("lesson",), "ask": ("next", "answer"), "reveal": ("next", "answer", "next"),
    "draft": ("draft", "propose"), "drafted": ("draft", "propose", "next"), "end": ("end",),
    "drafting left": ("draft", "propose", "lesson"), "hidden": ("draft", "propose", "hide"),
    "second round": ("draft", "propose", "next", "next", "propose"),
}  # fmt: skip


@cache
def plain(engine: DecodingEngine) -> Result:
    """The target's own text."""
    return engine.decode(PROMPT, drafter="plain", temperature=0.0, max_new_tokens=24)


class Held(TinyVerifier):
    """Verifies when it may, and notes what it was asked for. `fails`: it has no time."""

    def __init__(self, engine: DecodingEngine) -> None:
        super().__init__(engine)
        self.plain = plain(engine)
        self._decode, self.decode = self.decode, self.held
        self.may, self.begun = asyncio.Event(), asyncio.Event()
        self.verified, self.offered, self.verifying, self.fails = 0, 0, False, False
        self.may.set()

    async def held(self, prompt: str, settings: Settings, tokens: tuple[int, ...]) -> list[AnyEvent]:
        if settings.max_new_tokens != DEPTH + 1:
            self.offered += 1
            return await self._waited(prompt, settings, tokens)
        assert not self.verifying, "the round is verified twice"
        self.verified += 1
        self.verifying = True
        try:
            return await self._waited(prompt, settings, tokens)
        finally:
            self.verifying = False

    async def _waited(self, prompt: str, settings: Settings, tokens: tuple[int, ...]) -> list[AnyEvent]:
        self.begun.set()
        await self.may.wait()
        if self.fails:
            raise DraftscopeError("The server is full; try again.")
        return await self._decode(prompt, settings, tokens)


class Played:
    """A room over HTTP with a presenter and a phone, and a second window of each."""

    def __init__(self, engine: DecodingEngine) -> None:
        self.verifier, self.clock = Held(engine), Clock()
        self.rooms = Rooms(9, 9, self.clock)
        self.room = self.rooms.open(DECK)
        self.room.drafts = True
        self.phone, self.other = self.room.join(), self.room.join()
        self.http = client(Classroom(self.rooms, verifier=self.verifier), "192.0.2.1")  # type: ignore[arg-type]

    async def act(self, action: str) -> httpx.Response:
        what, body = (PRESENTERS | PHONES)[action]
        who = {"phone": self.phone} if action in PHONES else {}
        key = {} if action in PHONES else {KEY: self.room.key}
        return await self.http.post(f"/class/{self.room.code}/{what}", json=who | body, headers=key)

    def check(self) -> None:
        """What holds at any time."""
        state, writing = self.room.state(), self.room.writing
        json.dumps(state, ensure_ascii=False, allow_nan=False).encode()
        assert state["answered"] <= state["joined"] <= len(self.room.phones) == 2
        assert sum(state["tally"] or []) <= 2 and all(n["votes"] <= 2 for r in writing.rounds for n in r.nodes)
        assert self.verifier.plain.text.startswith(writing.text)
        assert list(writing.tokens) == self.verifier.plain.token_ids[: len(writing.tokens)]
        assert self.verifier.verified == len(writing.rounds)


def played(engine: DecodingEngine, play: Callable[[Played], Any]) -> None:
    async def whole() -> None:
        one = Played(engine)
        async with one.http:
            await play(one)
            one.check()

    asyncio.run(whole())


def test_every_post_of_a_room_is_among_these_actions() -> None:
    posts = {
        route.path.removeprefix("/class/{code}/")
        for route in Classroom(Rooms(1, 1)).routes()
        if "{code}" in route.path and "POST" in (route.methods or ())
    }
    assert posts == {what for what, _ in (PRESENTERS | PHONES).values()}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("phase", WAYS)
def test_an_action_twice_is_as_once_and_a_refused_one_changes_nothing(
    tiny: DecodingEngine, phase: str, action: str
) -> None:
    async def play(one: Played) -> None:
        for step in WAYS[phase]:
            assert (await one.act(step)).status_code < 300
        seen = [snapshot(one.room)]
        for _ in range(2):
            answer = await one.act(action)
            seen.append(snapshot(one.room))
            one.check()
            assert answer.status_code < 500 and (answer.status_code < 300 or seen[-1] == seen[-2]), answer.text
        assert action in STEPS or seen[2] == seen[1]
        assert action != "look" or seen[1] == seen[0]

    played(tiny, play)


def snapshot(room: Room) -> str:
    answers = [phone.answers for phone in room.phones.values()]
    return json.dumps([room.state(), answers, room.writing.proposed(), len(room.questions), sorted(room.revealed)])


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_while_the_target_verifies_neither_verifies_again_nor_loses_the_round(
    tiny: DecodingEngine, action: str
) -> None:
    async def play(one: Played) -> None:
        for step in ("draft", "propose"):
            await one.act(step)
        one.verifier.begun.clear()
        one.verifier.may.clear()
        closing = asyncio.create_task(one.act("next"))
        await one.verifier.begun.wait()
        answers = [await one.act(action) for _ in range(2)]
        assert one.room.phase == "verify" and one.verifier.verified == 1
        one.verifier.may.set()
        assert (await closing).json()["phase"] == one.room.phase == "drafted"
        one.check()
        late = await one.act(action)
        assert all(answer.status_code < 500 for answer in (*answers, late))
        one.check()

    played(tiny, play)


@pytest.mark.parametrize("action", ACTIONS)
def test_two_windows_at_the_same_moment_verify_once(tiny: DecodingEngine, action: str) -> None:
    async def play(one: Played) -> None:
        for step in ("draft", "propose"):
            await one.act(step)
        answers = await asyncio.gather(*(one.act(step) for step in ("next", action, "look", "next", action, "look")))
        assert all(answer.status_code < 500 for answer in answers)
        one.check()

    played(tiny, play)


def test_a_round_that_is_left_and_opened_again_keeps_its_proposals_and_offers_its_words_once(
    tiny: DecodingEngine,
) -> None:
    async def play(one: Played) -> None:
        one.verifier.may.clear()
        opening = [asyncio.create_task(one.act("draft"))]
        await one.verifier.begun.wait()
        await one.act("propose")
        await one.act("lesson")
        one.verifier.begun.clear()
        opening.append(asyncio.create_task(one.act("draft")))
        await one.verifier.begun.wait()
        one.verifier.may.set()
        first = (await opening[0]).json()["writing"]["options"]
        assert (await opening[1]).json()["writing"]["options"] == first and len(first) == 4
        for step in ("back", "draft"):
            await one.act(step)
        assert list(one.room.writing.options) == first and one.verifier.offered == 2
        assert one.room.writing.continuations() == {"abc": 1}

    played(tiny, play)


def test_words_that_come_while_the_target_verifies_change_nothing_of_its_round(tiny: DecodingEngine) -> None:
    async def play(one: Played) -> None:
        one.verifier.may.clear()
        opening = asyncio.create_task(one.act("draft"))
        await one.verifier.begun.wait()
        await one.act("propose")
        closing = asyncio.create_task(one.act("next"))
        while one.room.phase != "verify":
            await asyncio.sleep(0)
        one.verifier.may.set()
        await asyncio.gather(opening, closing)
        assert one.room.writing.options == () and one.room.writing.rounds[0].nodes[0]["votes"] == 1

    played(tiny, play)


def test_a_target_without_time_opens_the_round_again_with_its_proposals(tiny: DecodingEngine) -> None:
    async def play(one: Played) -> None:
        for step in ("draft", "propose"):
            await one.act(step)
        one.verifier.fails = True
        assert (await one.act("next")).status_code == 409 and one.room.phase == "draft"
        assert one.room.writing.continuations() == {"abc": 1}
        one.verifier.fails, one.verifier.verified = False, 0
        assert (await one.act("next")).json()["phase"] == "drafted"

    played(tiny, play)


def test_a_room_that_ends_while_the_target_verifies_stays_ended(tiny: DecodingEngine) -> None:
    async def play(one: Played) -> None:
        await one.act("draft")
        one.verifier.begun.clear()
        one.verifier.may.clear()
        closing = asyncio.create_task(one.act("next"))
        await one.verifier.begun.wait()
        one.clock.now = IDLE_S + 1
        assert (await one.act("look")).status_code == 404
        one.verifier.may.set()
        assert (await closing).json()["phase"] == "end" == one.room.phase

    played(tiny, play)


def test_another_text_after_one_that_has_ended_begins_with_its_prompt(tiny: DecodingEngine) -> None:
    async def play(one: Played) -> None:
        for step in ("draft", "next"):
            await one.act(step)
        one.room.writing.ended, one.verifier.verified = True, 0
        assert (await one.act("draft")).json()["writing"]["prompt"] == PROMPT

    played(tiny, play)
