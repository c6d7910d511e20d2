"""The class over HTTP: two pages, their files, one stream and small posts.

`/class` is the projector, `/join?CODE` a phone. The presenter's key is sent in a header and is part of no address. Who
may go in is decided in rooms.py, after the body was read: all of a handler from there on is one step of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import segno
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from draftscope.base.errors import DraftscopeError
from draftscope_app.doors.learn.classroom import pages
from draftscope_app.doors.learn.classroom.deck import Deck, as_json, check_question, shipped
from draftscope_app.doors.learn.classroom.posts import STEP_MOST, read_as, read_body, text_in, whole_in
from draftscope_app.doors.learn.classroom.questions import Question
from draftscope_app.doors.learn.classroom.room import Room
from draftscope_app.doors.learn.classroom.rooms import LaterError, NoRoomError, NotPresenterError, Rooms
from draftscope_app.doors.learn.classroom.shown_lessons import LessonStep, recorded
from draftscope_app.doors.learn.classroom.streams import PHONE_S, PRESENTER_S, follow
from draftscope_app.doors.learn.classroom.verifier import EngineVerifier

KEY = "x-class-key"
LINK_MOST, NUMBER_MOST = 300, 6  # characters of an address in a QR code, and of a lesson's number

Handler = Callable[[Request], Awaitable[Response]]


class Classroom:
    """The rooms of this server, behind routes. `network` is its address for other machines, empty without one. With a
    `verifier` a class may draft."""

    def __init__(
        self, rooms: Rooms, network: str = "", deck: Deck | None = None, verifier: EngineVerifier | None = None
    ) -> None:
        self._rooms, self._network, self._deck, self._verifier = rooms, network, deck, verifier
        self._at_work = asyncio.Lock()

    def routes(self) -> list[Route]:
        posts = {
            "/class/rooms": self._open,
            "/class/{code}/qr": self._qr,
            "/class/{code}/join": self._join,
            "/class/{code}/answer": self._answer,
            "/class/{code}/propose": self._propose,
            "/class/{code}/turn": self._turn,
            "/class/{code}/show": self._show,
            "/class/{code}/take": self._take,
            "/class/{code}/proposals": self._proposals,
        }
        return [
            Route("/class", pages.page("projector.html")),
            Route("/join", pages.page("phone.html")),
            Route("/class/files/{name:path}", pages.file),
            Route("/class/{code}/events", self._answered(self._events)),
            Route("/class/{code}/lesson", self._answered(self._lesson)),
            Route("/class/{code}/lessons", self._answered(self._lessons)),
            *(Route(path, self._answered(handler), methods=["POST"]) for path, handler in posts.items()),
        ]

    def _answered(self, handler: Handler) -> Handler:
        """The handler with each of its errors as one sentence."""

        async def answered(request: Request) -> Response:
            try:
                return await handler(request)
            except LaterError as error:
                return JSONResponse({"error": str(error)}, 429, {"retry-after": str(error.wait_s)})
            except NoRoomError as error:
                return JSONResponse({"error": str(error)}, 404)
            except NotPresenterError as error:
                return JSONResponse({"error": str(error)}, 403)
            except DraftscopeError as error:
                return JSONResponse({"error": str(error)}, 409)

        return answered

    async def _open(self, request: Request) -> Response:
        async with self._at_work:
            deck = await asyncio.to_thread(shipped) if self._deck is None else self._deck
        room = self._rooms.open(deck, _address(request))
        room.drafts = self._verifier is not None
        known = {"code": room.code, "key": room.key, "ticket": room.ticket}
        return JSONResponse(known | {"network": self._network, "questions": as_json(room.deck)})

    async def _qr(self, request: Request) -> Response:
        """The room's QR code, which is made once and beside everything else."""
        link = text_in(await read_body(request), "link")
        room = self._presented(request)
        if not link or len(link) > LINK_MOST:
            raise DraftscopeError(f"link has {len(link)} characters; a QR code here takes 1 to {LINK_MOST}.")
        async with self._at_work:
            room.image = room.image or await asyncio.to_thread(_qr_code, link)
        return JSONResponse({"image": room.image})

    async def _join(self, request: Request) -> Response:
        body = await read_body(request)
        phone = text_in(body, "phone")
        room = self._room(request, phone, text_in(body, "ticket"))
        token = room.join(phone)
        room.bell.count()
        return JSONResponse({"phone": token})

    async def _answer(self, request: Request) -> Response:
        body = await read_body(request)
        phone = text_in(body, "phone")
        room = self._room(request, phone)
        room.answer(phone, whole_in(body, "question"), whole_in(body, "option"))
        room.bell.count()
        return Response(status_code=204)

    async def _show(self, request: Request) -> Response:
        body = await read_body(request, STEP_MOST)
        room = self._presented(request)
        room.show(read_as(LessonStep, body))
        room.bell.turn()
        return Response(status_code=204)

    async def _take(self, request: Request) -> Response:
        body = await read_body(request, STEP_MOST)
        room = self._presented(request)
        room.take(check_question(read_as(Question, body)))
        room.bell.turn()
        return Response(status_code=204)

    async def _lesson(self, request: Request) -> Response:
        """The class's own as far as it was shown, or the one with this number."""
        room, number = self._room(request, *_proofs(request)), request.query_params.get("number", "")
        if room.phase != "lesson":
            raise DraftscopeError("The class is at a question now; this phone is back with it.")
        steps = room.lesson.other(int(number[:NUMBER_MOST])) if number.isdecimal() else room.lesson.earlier()
        return JSONResponse(steps)

    async def _lessons(self, _: Request) -> Response:
        return JSONResponse([steps[0]["title"] for steps in recorded()])

    async def _turn(self, request: Request) -> Response:
        """One step. Only a turn that itself opens a round offers words, and only one that closes it verifies: a
        projector that comes back while the target verifies finds it at work."""
        action = text_in(await read_body(request), "action")
        room = self._presented(request)
        before = room.phase
        room.turn(action)
        if room.phase == "end":
            self._rooms.close(room)
        elif action != "look":
            room.bell.turn()
        if room.phase != before and self._verifier is not None:
            if room.phase == "draft":
                await self._offer(room, self._verifier)
            elif room.phase == "verify":
                await self._verify(room, self._verifier)
        return JSONResponse(room.state())

    async def _offer(self, room: Room, verifier: EngineVerifier) -> None:
        writing = room.writing
        writing.begin(verifier.prompt())
        with suppress(DraftscopeError):  # the class has its words where the engine has no time
            await writing.offer(verifier.decode)
        room.bell.turn()

    async def _verify(self, room: Room, verifier: EngineVerifier) -> None:
        room.writing.begin(verifier.prompt())
        worked = False
        try:
            await room.writing.close(verifier.decode, *verifier.head())
            worked = True
        finally:
            room.verified(worked)
            room.bell.turn()

    async def _propose(self, request: Request) -> Response:
        body = await read_body(request)
        phone = text_in(body, "phone")
        room = self._room(request, phone)
        room.propose(phone, text_in(body, "text"))
        room.bell.count()
        return Response(status_code=204)

    async def _proposals(self, request: Request) -> Response:
        """The presenter sees what is proposed before the class does, and may `hide` some of it, or `show` it again."""
        body = await read_body(request)
        room = self._presented(request)
        if room.phase == "draft":
            room.writing.hide(text_in(body, "hide"))
            room.writing.hidden.discard(text_in(body, "show"))
        return JSONResponse(room.writing.proposed())

    async def _events(self, request: Request) -> Response:
        token = request.query_params.get("phone", "")
        room = self._room(request, *_proofs(request))
        if token:
            room.find_phone(token)
        stream = self._followed(room, token) if token else self._watched(room)
        return StreamingResponse(stream, media_type="text/event-stream", headers={"cache-control": "no-store"})

    async def _watched(self, room: Room) -> AsyncIterator[str]:
        with self._rooms.watching(room):
            async for event in follow(room, room.state, PRESENTER_S):
                yield event

    async def _followed(self, room: Room, token: str) -> AsyncIterator[str]:
        with suppress(DraftscopeError):  # forgotten before it came: it joins again
            room.come(token)
            room.bell.count()
            try:
                async for event in follow(room, lambda: room.state_for(token), PHONE_S):
                    yield event
            finally:
                room.leave(token)
                room.bell.count()

    def _presented(self, request: Request) -> Room:
        return self._rooms.present(request.path_params["code"], request.headers.get(KEY, ""), _address(request))

    def _room(self, request: Request, *proofs: str) -> Room:
        return self._rooms.find(request.path_params["code"], _address(request), *proofs)


def _proofs(request: Request) -> list[str]:
    """Of a page that asks without a body."""
    return [request.query_params.get(name, "") for name in ("phone", "ticket")]


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _qr_code(link: str) -> str:
    return segno.make_qr(link, error="m").svg_data_uri(border=2, scale=8)
