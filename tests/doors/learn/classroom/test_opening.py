"""How many rooms there are, who may open one, when they end, and what is made for them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx
import pytest

from draftscope_app.doors.learn.classroom import class_routes
from draftscope_app.doors.learn.classroom.class_routes import KEY, Classroom
from draftscope_app.doors.learn.classroom.rooms import LaterError, NoRoomError, Rooms, in_words
from tests.doors.learn.classroom.class_server import client
from tests.doors.learn.classroom.test_guessing import SCHOOL, STRANGER, refusals
from tests.doors.learn.classroom.test_rooms import DECK, Clock


def test_nobody_takes_all_rooms_and_an_ended_one_gives_its_place_back() -> None:
    clock = Clock()
    every = Rooms(20, 300, clock)
    first, *_ = [every.open(DECK, STRANGER) for _ in range(5)]
    with pytest.raises(LaterError, match="Your address has its 5 rooms; end one of them, try again in 10 minutes") as e:
        every.open(DECK, STRANGER)
    assert e.value.wait_s == 600
    assert every.open(DECK, SCHOOL)
    every.close(first)
    assert every.open(DECK, STRANGER)
    refusals(1, lambda: every.find(first.code), NoRoomError)
    for n in range(14):
        every.open(DECK, f"192.0.2.{n}")
    with pytest.raises(LaterError, match="This server has its 20 rooms"):
        every.open(DECK, "192.0.2.99")
    clock.now = 600.1  # what the sentence says is true: nobody came to any of them
    assert every.open(DECK, STRANGER)


def test_a_room_that_is_watched_or_has_phones_stays_an_hour_and_another_ten_minutes() -> None:
    clock = Clock()
    every = Rooms(20, 300, clock)
    watched, joined, abandoned = (every.open(DECK, f"192.0.2.{n}") for n in range(3))
    joined.join()
    with every.watching(watched):
        clock.now = 601.0
        assert every.find(watched.code) is watched and every.find(joined.code) is joined
        refusals(1, lambda: every.find(abandoned.code), NoRoomError)
        assert abandoned.phase == "end"
    clock.now = 1200.0
    assert every.find(watched.code) is watched
    clock.now = 1202.0
    refusals(1, lambda: every.find(watched.code), NoRoomError)


def test_rooms_opened_and_ended_in_turn_are_slowed_by_address_and_in_all() -> None:
    clock = Clock()
    every = Rooms(20, 300, clock)

    def open_and_end(address: str) -> None:
        every.close(every.open(DECK, address))

    for n in range(4):
        for _ in range(10):
            open_and_end(f"192.0.2.{n}")
        with pytest.raises(LaterError, match="Many rooms were opened a moment ago; try again in"):
            open_and_end(f"192.0.2.{n}")
    refusals(1, lambda: open_and_end(SCHOOL), LaterError)
    clock.now = 5.0
    open_and_end(SCHOOL)


def test_a_class_that_ends_is_gone_with_its_presenters_turn_and_phones_see_the_scores() -> None:
    every = Rooms(20, 300)
    room = every.open(DECK)

    async def end() -> tuple[dict[str, Any], int, list[str]]:
        classroom = Classroom(every)
        phone = room.join()
        stream = classroom._followed(room, phone)
        heard = [await anext(stream)]
        async with client(classroom, SCHOOL) as http:
            here = f"/class/{room.code}"
            ended = await http.post(f"{here}/turn", json={"action": "end"}, headers={KEY: room.key})
            heard += [event async for event in stream]
            again = await http.post(f"{here}/join", json={"phone": phone})
            return ended.json(), again.status_code, heard

    state, again, heard = asyncio.run(end())
    assert state["phase"] == "end" and again == 404
    assert len(heard) == 2 and '"phase":"end"' in heard[-1] and '"scores":{' in heard[-1]


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "1 second"), (20.5, "21 seconds"), (91, "2 minutes"), (3600, "60 minutes")]
)
def test_a_wait_is_said_in_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


def test_a_qr_code_is_made_once_for_its_presenter_and_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    every, threads, draw = Rooms(20, 300), [], class_routes._qr_code
    room = every.open(DECK)

    def noting(link: str) -> str:
        threads.append(threading.current_thread())
        return draw(link)

    monkeypatch.setattr(class_routes, "_qr_code", noting)

    async def ask() -> list[httpx.Response]:
        async with client(Classroom(every), SCHOOL) as http:
            here, link, key = f"/class/{room.code}/qr", {"link": f"http://a/join?{room.code}"}, {KEY: room.key}
            refused = [await http.post(here, json=link), await http.post(here, json={"link": "x" * 301}, headers=key)]
            nothing = await http.post("/class/qr", json=link)
            images = await asyncio.gather(*(http.post(here, json=link, headers=key) for _ in range(32)))
            return [nothing, *refused, *images]

    nothing, no_key, long, *images = asyncio.run(ask())
    assert [nothing.status_code, no_key.status_code, long.status_code] == [404, 403, 409]
    assert {answer.json()["image"][:14] for answer in images} == {"data:image/svg"}
    assert len(threads) == 1 and threads[0] is not threading.current_thread()
