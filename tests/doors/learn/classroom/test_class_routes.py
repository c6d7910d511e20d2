"""The class over HTTP, with real connections."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx
import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope_app.doors.learn.classroom import bells, class_routes, pages
from draftscope_app.doors.learn.classroom.deck import shipped
from draftscope_app.doors.learn.classroom.drafting import LIKELY, OTHERS
from draftscope_app.doors.learn.classroom.shown_lessons import recorded
from tests.doors.learn.classroom.class_server import served_class, states
from tests.doors.learn.classroom.test_drafting import PROMPT, decoder

post, get = partial(httpx.post, timeout=60), partial(httpx.get, timeout=60)  # also on a busy machine


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served_class() as url:
        yield url


@pytest.fixture(scope="module")
def room_code(address: str) -> str:
    return str(opened(address)["code"])


def opened(address: str) -> dict[str, Any]:
    answer: dict[str, Any] = post(f"{address}/class/rooms", json={}).raise_for_status().json()
    return answer


def turn(address: str, room: dict[str, Any], action: str) -> httpx.Response:
    headers = {class_routes.KEY: room["key"]}
    return post(f"{address}/class/{room['code']}/turn", json={"action": action}, headers=headers)


def test_a_phone_follows_answers_and_comes_back_where_the_class_is(address: str) -> None:
    room = opened(address)
    base = f"/class/{room['code']}"
    phone = post(f"{address}{base}/join", json={}).json()["phone"]

    async def one_question() -> None:
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            heard = states(client, f"{base}/events?phone={phone}")
            assert (await anext(heard))["phase"] == "lobby"
            await asyncio.to_thread(turn, address, room, "next")
            assert (await anext(heard))["phase"] == "ask"
            sent = {"phone": phone, "question": 0, "option": shipped().questions[0].truth}
            assert (await client.post(f"{base}/answer", json=sent)).status_code == 204
            await heard.aclose()
            await asyncio.to_thread(turn, address, room, "next")
            assert (await client.post(f"{base}/join", json={"phone": phone})).json() == {"phone": phone}
            again = await anext(states(client, f"{base}/events?phone={phone}"))
            assert (again["phase"], again["yours"], again["right"]) == ("reveal", shipped().questions[0].truth, 1)

    asyncio.run(one_question())
    assert turn(address, room, "end").json()["scores"]["best"] == 1


def test_the_key_turns_pages_and_is_in_no_page_that_phones_get(address: str) -> None:
    room = opened(address)
    assert turn(address, room | {"key": "wrong"}, "next").status_code == 403
    assert turn(address, room | {"code": "QQQQQQ" if room["code"] != "QQQQQQ" else "WWWWWW"}, "next").status_code == 404
    first = asyncio.run(first_state(address, room["code"]))
    assert room["key"] not in str(first) and first["phase"] == "lobby"


async def first_state(address: str, code: str) -> dict[str, Any]:
    async with httpx.AsyncClient(base_url=address, timeout=60) as client:
        return await anext(states(client, f"/class/{code}/events"))


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"[]", "not a JSON object"),
        (b"{", "not a JSON object"),
        (b'{"phone": "' + b"x" * 3000 + b'"}', "bytes"),
        (b'{"phone": "x", "question": "0", "option": 0}', "question is not a whole number"),
        (b'{"phone": "x", "question": 0, "option": true}', "option is not a whole number"),
        (b'{"phone": "x", "question": 0, "option": 0}', "not in the room"),
    ],
)
def test_a_wrong_answer_to_the_server_is_one_sentence(address: str, room_code: str, body: bytes, sentence: str) -> None:
    answer = post(f"{address}/class/{room_code}/answer", content=body)
    assert answer.status_code == 409 and sentence in answer.json()["error"]


def test_pages_and_files_are_small_and_nothing_else_is_served(address: str) -> None:
    names = ["/join", "/class/files/style.css", *(f"/class/files/{name}" for name in pages.FILES)]
    sizes = [len(get(f"{address}{name}").raise_for_status().content) for name in names]
    assert sum(sizes) < 100_000
    assert get(f"{address}/class/files/../../pyproject.toml").status_code == 404
    assert get(f"{address}/class/files/host/page.js").status_code == 404


STEP = {"title": recorded()[1][0]["title"], "at": 0, "of": 5, "words": "One round."}


def test_phones_see_the_presenters_step_and_the_earlier_ones_but_no_later_one(address: str) -> None:
    room = opened(address)
    headers, base = {class_routes.KEY: room["key"]}, f"{address}/class/{room['code']}"
    guess = {"text": "·cat", "fate": None, "p": None, "q": 0.5}
    for at in (0, 1):
        shown = post(f"{base}/show", json=STEP | {"at": at, "guesses": [guess]}, headers=headers)
        assert shown.status_code == 204
    state = asyncio.run(first_state(address, room["code"]))
    assert (state["phase"], state["step"]["at"], state["step"]["guesses"][0]["q"]) == ("lesson", 1, 0.5)
    assert [step["at"] for step in get(f"{base}/lesson").json()] == [0, 1]
    titles = get(f"{base}/lessons").json()
    assert len(titles) == len(recorded()) and titles[1] == STEP["title"]
    assert get(f"{base}/lesson?number=7").json()[0]["title"] == titles[6]
    assert [step["at"] for step in get(f"{base}/lesson?number=2").json()] == [0, 1]
    assert f"lessons 1 to {len(titles)}" in get(f"{base}/lesson?number={len(titles) + 1}").json()["error"]
    post(f"{base}/show", json=STEP | {"title": "Lesson 3"}, headers=headers)
    assert [step["title"] for step in get(f"{base}/lesson").json()] == ["Lesson 3"]
    assert post(f"{base}/show", json=STEP).status_code == 403
    turn(address, room, "next")
    assert "this phone is back" in get(f"{base}/lesson?number=7").json()["error"]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [({}, "title: Field required"), (STEP | {"at": 40}, "at: "), (STEP | {"words": "x" * 20000}, "bytes")],
)
def test_a_step_that_is_none_is_refused_in_one_sentence(address: str, body: dict[str, Any], sentence: str) -> None:
    room = opened(address)
    answer = post(f"{address}/class/{room['code']}/show", json=body, headers={class_routes.KEY: room["key"]})
    assert answer.status_code == 409 and sentence in answer.json()["error"]


class TinyVerifier:
    """The tiny engine behind a class, without a head."""

    def __init__(self, engine: DecodingEngine) -> None:
        self.decode = decoder(engine)

    def head(self) -> tuple[str, str]:
        return "", ""

    def prompt(self) -> str:
        return PROMPT


def test_a_presenter_sees_and_hides_words_that_nobody_else_gets(tiny: DecodingEngine) -> None:
    with served_class(verifier=TinyVerifier(tiny)) as url:
        room = opened(url)
        base, headers = f"{url}/class/{room['code']}", {class_routes.KEY: room["key"]}
        phones = [post(f"{base}/join", json={}).json()["phone"] for _ in range(2)]
        assert len(turn(url, room, "draft").json()["writing"]["options"]) == LIKELY + OTHERS
        for phone, text in zip(phones, ("secret", "ab"), strict=True):
            post(f"{base}/propose", json={"phone": phone, "text": text}).raise_for_status()
        assert post(f"{base}/proposals", json={}).status_code == 403
        assert "secret" not in str(asyncio.run(first_state(url, room["code"])))
        seen = post(f"{base}/proposals", json={"hide": "secret"}, headers=headers).json()
        assert {(each["text"], each["hidden"]) for each in seen} == {("secret", True), ("ab", False)}
        drafted = turn(url, room, "next").json()
        assert drafted["phase"] == "drafted" and [node["text"] for node in drafted["writing"]["nodes"]] == ["a", "b"]


def test_a_silent_room_keeps_its_connections(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bells, "KEEP_ALIVE_S", 0.05)
    room = opened(address)

    async def first_sign() -> str:
        async with (
            httpx.AsyncClient(base_url=address, timeout=60) as client,
            client.stream("GET", f"/class/{room['code']}/events") as answer,
        ):
            async for line in answer.aiter_lines():
                if line.startswith("event:"):
                    return line
        return ""

    assert asyncio.run(first_sign()) == "event: here"
