"""What somebody may do to classes: guess codes, open rooms, ask for QR codes, press twice, and send what is no text."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from typing import Any

import httpx

from draftscope_app.doors.learn.classroom.class_routes import KEY
from draftscope_app.doors.learn.classroom.room import POSTS_S
from draftscope_app.doors.learn.classroom.rooms import CODE_LENGTH, GUESSES, GUESSES_OF_ADDRESS, LETTERS
from tests.programs.attacks import visitor
from tests.programs.attacks.outcome import Outcome
from tests.programs.attacks.server import Server, Watch

TRIES, AT_ONCE, ADDRESSES = 6000, 200, 20  # wrong codes, and from how many addresses they say that they come
ROOMS, CLIENTS, MAX_S = 40, 32, 1.0
PROPOSALS = ('"\\ud800"', '"\\udc00 a"', '"||"', '"\\u0000"', '"</s>"', '"once"', "NaN", '["a"]')
ROUNDS = 4


class Class:
    """A room with its presenter, over HTTP."""

    def __init__(self, http: httpx.AsyncClient, room: dict[str, Any]) -> None:
        self.http, self.room, self.base = http, room, f"/class/{room['code']}"

    @classmethod
    async def open(cls, http: httpx.AsyncClient) -> Class:
        return cls(http, (await http.post("/class/rooms", json={})).raise_for_status().json())

    async def post(self, what: str, **body: Any) -> httpx.Response:
        return await self.http.post(f"{self.base}/{what}", json=body, headers={KEY: self.room["key"]})

    async def join(self) -> str:
        """A phone that scanned the QR code."""
        answer = await self.post("join", ticket=self.room["ticket"])
        return str(answer.raise_for_status().json()["phone"])

    async def propose(self, phone: str, text: str) -> int:
        """The answer's status, for JSON that may be none."""
        body = f'{{"phone": "{phone}", "text": {text}}}'
        return (await self.http.post(f"{self.base}/propose", content=body)).status_code


def codes(server: Server) -> Outcome:
    """Wrong codes as fast as they go, from one address and then from many, while a class goes on."""
    return asyncio.run(_codes(server))


async def _codes(server: Server) -> Outcome:
    async with visitor.client(server.url) as http:
        room = await Class.open(http)
        phone = await room.join()
        one, many = Counter[int](), Counter[int]()
        for start in range(0, TRIES, AT_ONCE):
            one.update(await asyncio.gather(*(_guess(http, {}) for _ in range(AT_ONCE))))
            heads = [{"X-Forwarded-For": f"203.0.113.{(start + n) % ADDRESSES}"} for n in range(AT_ONCE)]
            many.update(await asyncio.gather(*(_guess(http, head) for head in heads)))
        right = await http.post(f"{room.base}/join", json={})
        scanned, back = await room.join(), (await room.post("join", phone=phone)).json().get("phone")
        await room.post("turn", action="end")
    allowed = (
        one[404] <= GUESSES_OF_ADDRESS.at_once + TRIES // 100 and (one + many)[404] <= GUESSES.at_once + TRIES // 50
    )
    held = allowed and set(one + many) <= {404, 429} and right.status_code == 429 and bool(scanned) and back == phone
    found = f"{one[404]} and {many[404]} were answered; then the right code {right.status_code}, a scanned one joined"
    return Outcome(f"{2 * TRIES} wrong codes, {AT_ONCE} at a time, from 1 and {ADDRESSES} addresses", held, found)


async def _guess(http: httpx.AsyncClient, headers: dict[str, str]) -> int:
    code = "".join(secrets.choice(LETTERS) for _ in range(CODE_LENGTH))
    return (await http.post(f"/class/{code}/join", json={}, headers=headers)).status_code


def places(server: Server) -> Outcome:
    """One visitor opens more rooms than there are; another must open one, and an ended one must free its place."""
    return asyncio.run(_places(server))


async def _places(server: Server) -> Outcome:
    async with visitor.client(server.url) as http:
        answers = await asyncio.gather(*(http.post("/class/rooms", json={}) for _ in range(ROOMS)))
        opened = [Class(http, answer.json()) for answer in answers if answer.status_code == 200]
        refusal = next((answer.json()["error"] for answer in answers if answer.status_code != 200), "")
        other = await http.post("/class/rooms", json={}, headers={"X-Forwarded-For": "203.0.113.99"})
        await opened[0].post("turn", action="end")
        again = await http.post("/class/rooms", json={})
        for room in (*opened[1:], *(Class(http, answer.json()) for answer in (other, again) if answer.is_success)):
            await room.post("turn", action="end")
    held = len(opened) < ROOMS and other.is_success and again.is_success and "try again in" in refusal
    return Outcome(f"{ROOMS} rooms opened at once by one visitor", held, f"{len(opened)} opened; {refusal}")


def qr(server: Server) -> Outcome:
    """QR codes without a room, without its key, and by its presenter again and again."""
    return asyncio.run(_qr(server))


async def _qr(server: Server) -> Outcome:
    statuses = Counter[int]()
    async with visitor.client(server.url) as http:
        room = await Class.open(http)
        link = {"link": "http://127.0.0.1/join?" + "x" * 270}

        async def ask(n: int) -> None:
            for _ in range(20):
                path = "/class/qr" if n % 3 == 0 else f"{room.base}/qr"
                headers = {KEY: room.room["key"]} if n % 3 == 1 else {}
                statuses[(await http.post(path, json=link, headers=headers)).status_code] += 1

        with Watch(server) as watch:
            await asyncio.gather(*(ask(n) for n in range(CLIENTS)))
        await asyncio.sleep(POSTS_S)  # the presenter's page may be heard again
        await room.post("turn", action="end")
    told = ", ".join(f"{count} x {status}" for status, count in sorted(statuses.items()))
    held = watch.late < MAX_S and max(statuses) < 500
    return Outcome(
        f"{statuses.total()} asked for by {CLIENTS} at once", held, f"/healthz {watch.late:.2f} s at most; {told}"
    )


def presses(server: Server) -> Outcome:
    """A projector that comes back while the target verifies; phones that send what is no text."""
    return asyncio.run(_presses(server))


async def _presses(server: Server) -> Outcome:
    async with visitor.client(server.url) as http:
        quiet, pressed = await Class.open(http), await Class.open(http)
        plain = [await _round(quiet, []) for _ in range(ROUNDS)][-1]
        phone, other = await pressed.join(), await pressed.join()
        statuses, kept = Counter[int](), []
        for _ in range(ROUNDS):
            await pressed.post("turn", action="draft")
            for text in PROPOSALS:
                statuses[await pressed.propose(phone, text)] += 1
            statuses[await pressed.propose(other, '"wand while"')] += 1
            state = await _round(pressed, ["look", "look", "next", "draft", "back", "look"])
            kept.append(len(state["writing"]["kept"]))
        for room in (quiet, pressed):
            await room.post("turn", action="end")
    texts = sorted((plain["writing"]["text"], state["writing"]["text"]), key=len)
    held = kept == list(range(1, ROUNDS + 1)) and texts[1].startswith(texts[0]) and max(statuses) < 500
    found = f"rounds {kept}; the text {'is' if texts[1].startswith(texts[0]) else 'IS NOT'} the target's own"
    return Outcome(f"{ROUNDS} rounds, each pressed seven times at once; {statuses.total()} proposals", held, found)


async def _round(room: Class, beside: list[str]) -> dict[str, Any]:
    """One round to its end; what is pressed `beside` comes while the target verifies."""
    if not beside:
        await room.post("turn", action="draft")
    verifying = asyncio.create_task(room.post("turn", action="next"))
    await asyncio.sleep(0.01)
    await asyncio.gather(*(room.post("turn", action=action) for action in beside))
    state: dict[str, Any] = (await verifying).raise_for_status().json()
    return state
