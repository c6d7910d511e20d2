"""Strangers who try codes and keys: what it costs them, and that nobody of a class pays for it."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from draftscope_app.doors.learn.classroom import rooms
from draftscope_app.doors.learn.classroom.allowances import Allowance, Rate, network_of
from draftscope_app.doors.learn.classroom.class_routes import KEY, Classroom
from draftscope_app.doors.learn.classroom.rooms import (
    GUESSES,
    LETTERS,
    LaterError,
    NoRoomError,
    NotPresenterError,
    Rooms,
)
from draftscope_app.doors.learn.classroom.variables import Variables
from tests.doors.learn.classroom.class_server import client
from tests.doors.learn.classroom.test_rooms import DECK, Clock

YEAR_S = 365.25 * 86400
TRIES = 5
SCHOOL, STRANGER = "203.0.113.7", "198.51.100.9"


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few wrong codes are allowed, so that all of them can be tried."""
    monkeypatch.setattr(rooms, "GUESSES_OF_ADDRESS", Rate(TRIES, 20.0))
    monkeypatch.setattr(rooms, "GUESSES", Rate(3 * TRIES, 10.0))


def wrong(room: Any) -> str:
    return "QQQQQQ" if room.code != "QQQQQQ" else "WWWWWW"


def test_a_code_takes_years_to_guess_at_the_permitted_rate() -> None:
    most = Variables.read({}).max_rooms
    tried = (len(LETTERS) ** rooms.CODE_LENGTH + 1) / (most + 1)  # on average, until the first room is hit
    assert (tried - GUESSES.at_once) * GUESSES.every_s / YEAR_S > 2.5
    assert len(rooms._new_code()) == rooms.CODE_LENGTH


def test_what_opens_a_room_at_any_rate_takes_longer_than_anybody_lives() -> None:
    room = Rooms(20, 300).open(DECK)
    for secret in (room.key, room.ticket, room.join()):
        bits = 6 * len(re.sub("[^A-Za-z0-9_-]", "", secret))
        assert 2**bits / 2 / 20 / 10_000 / YEAR_S > 1e6  # at ten thousand requests a second


def test_wrong_codes_at_once_are_paid_for_by_all_but_the_first(few: None) -> None:
    every = Rooms(20, 300)
    room = every.open(DECK)

    async def guess() -> tuple[Counter[int], httpx.Response, httpx.Response]:
        async with client(Classroom(every), STRANGER) as stranger:
            tried = [f"/class/{secrets.token_hex(3)}/join" for _ in range(200)]
            answers = await asyncio.gather(*(stranger.post(path, json={}) for path in tried))
            right = await stranger.post(f"/class/{room.code}/join", json={})
            return Counter(answer.status_code for answer in answers), right, answers[-1]

    statuses, right, refused = asyncio.run(guess())
    assert statuses == {404: TRIES, 429: 200 - TRIES}
    assert (right.status_code, right.text) == (refused.status_code, refused.text)
    assert int(right.headers["retry-after"]) <= 20 and "scan the QR code" in right.json()["error"]


PATHS = [(path, method) for route in Classroom(Rooms(1, 1)).routes() for path in [route.path]
         for method in sorted(route.methods or ()) if "{code}" in path and method != "HEAD"]  # fmt: skip


@pytest.mark.parametrize(("path", "method"), PATHS)
@pytest.mark.parametrize("proof", ["", "guessed"])
def test_no_route_says_whether_a_code_is_right_before_it_is_paid_for(
    few: None, path: str, method: str, proof: str
) -> None:
    every = Rooms(20, 300)
    room = every.open(DECK)

    async def ask() -> list[tuple[int, str, httpx.Headers]]:
        async with client(Classroom(every), STRANGER) as stranger:
            for _ in range(TRIES):
                assert (await stranger.post(f"/class/{wrong(room)}/join", json={})).status_code == 404
            answers = []
            for code in (room.code, wrong(room)):
                given: dict[str, Any] = {"headers": {KEY: proof}, "params": {"phone": proof, "ticket": proof}}
                if method == "POST":
                    given["json"] = {"phone": proof, "ticket": proof}
                answer = await stranger.request(method, path.replace("{code}", code), **given)
                answers.append((answer.status_code, answer.text, answer.headers))
            return answers

    right, other = asyncio.run(ask())
    assert right == other and (right[0] == 429 or path.endswith("/lessons"))


def test_a_class_joins_and_goes_on_while_somebody_at_its_address_guesses(few: None) -> None:
    every = Rooms(20, 300)
    room = every.open(DECK, SCHOOL)
    before = room.join()
    room.turn("next")

    async def goes_on() -> list[int]:
        async with client(Classroom(every), SCHOOL) as phones:
            here = f"/class/{room.code}"
            for _ in range(2 * TRIES):
                await phones.post(f"/class/{wrong(room)}/join", json={})
            join = [await phones.post(f"{here}/join", json=one) for one in ({"ticket": room.ticket}, {"phone": before})]
            answer = await phones.post(f"{here}/answer", json={"phone": before, "question": 0, "option": 1})
            turn = await phones.post(f"{here}/turn", json={"action": "next"}, headers={KEY: room.key})
            return [answer.status_code for answer in (*join, answer, turn)]

    assert asyncio.run(goes_on()) == [200, 200, 204, 200]
    assert len(room.phones) == 2


def test_a_hundred_phones_behind_one_address_join_though_some_mistype() -> None:
    every = Rooms(20, 300)
    room = every.open(DECK, SCHOOL)

    async def join() -> list[int]:
        async with client(Classroom(every), SCHOOL) as phones:
            mistyped = await asyncio.gather(*(phones.post("/class/QQQQQQ/join", json={}) for _ in range(100)))
            joined = await asyncio.gather(*(phones.post(f"/class/{room.code}/join", json={}) for _ in range(100)))
            return [answer.status_code for answer in (*mistyped, *joined)]

    assert asyncio.run(join()) == [404] * 100 + [200] * 100


def test_wrong_codes_are_counted_by_address_and_in_all_and_forgiven_with_time(few: None) -> None:
    clock = Clock()
    every = Rooms(20, 300, clock)
    room = every.open(DECK)
    for address in ("192.0.2.1", "192.0.2.2", "192.0.2.3"):
        refusals(TRIES, lambda address=address: every.find(wrong(room), address), NoRoomError)
        refusals(2, lambda address=address: every.find(room.code, address), LaterError)
    refusals(1, lambda: every.find(room.code, "192.0.2.4"), LaterError)  # in all
    clock.now = 10.0
    assert every.find(room.code, "192.0.2.4") is room
    refusals(1, lambda: every.find(room.code, "192.0.2.1"), LaterError)
    clock.now = 20.0
    assert every.find(room.code, "192.0.2.1") is room and every.find(room.code, "192.0.2.1") is room


def refusals(times: int, act: Callable[[], Any], kind: type[Exception]) -> None:
    for _ in range(times):
        with pytest.raises(kind):
            act()


def test_a_wrong_key_costs_what_a_wrong_code_costs_and_debts_do_not_grow(few: None) -> None:
    clock = Clock()
    every = Rooms(20, 300, clock)
    room = every.open(DECK)
    refusals(TRIES, lambda: every.present(room.code, "guessed", STRANGER), NotPresenterError)
    refusals(100, lambda: every.present(room.code, "guessed", STRANGER), LaterError)
    assert every.present(room.code, room.key, STRANGER) is room
    phone = room.join()
    refusals(100, lambda: every.present(room.code, phone, STRANGER), LaterError)
    clock.now = 20.0
    assert every.find(room.code, STRANGER) is room


def test_tries_are_kept_for_no_longer_than_they_count() -> None:
    clock = Clock()
    allowance = Allowance(Rate(2, 1.0), Rate(10, 1.0), clock)
    for n in range(100):
        clock.now += 1.0
        allowance.take(f"192.0.2.{n}")
    assert len(allowance._whole_at) <= 4
    allowance.take("192.0.2.200")
    assert not allowance.wait_s("192.0.2.200")
    allowance.take("192.0.2.200")
    assert 0 < allowance.wait_s("192.0.2.200") <= 1 and not allowance.wait_s("192.0.2.201")


@pytest.mark.parametrize(
    ("address", "visitor"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", network_of("2001:db8::ffff:2")),
        ("fe80::1%eth0", network_of("fe80::2")),
        ("", "unknown"),
        ("x" * 999, "x" * 64),
    ],
)
def test_an_address_counts_as_the_part_that_nobody_chooses(address: str, visitor: str) -> None:
    assert network_of(address) == visitor != network_of("2001:db8:0:1::1")
