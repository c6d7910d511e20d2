"""The class over HTTP: two pages, their files, one stream and four small posts.

`/class` is the projector, `/join?CODE` a phone. The presenter's key is sent in a header and is part of no address.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import segno
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError
from draftscope.trace.html import css_variables, palette, root_colours
from draftscope_app.doors.learn.classroom.deck import Deck, as_json, check_question, shipped
from draftscope_app.doors.learn.classroom.lessons import LessonStep, recorded
from draftscope_app.doors.learn.classroom.questions import Question
from draftscope_app.doors.learn.classroom.rooms import NoRoomError, NotPresenterError, Room, Rooms
from draftscope_app.doors.learn.classroom.streams import PHONE_S, PRESENTER_S, Bell, follow
from draftscope_app.doors.learn.classroom.verifier import EngineVerifier

FOLDER = assets() / "instrument" / "classroom"
KEY = "x-class-key"
FILES = (
    "classroom/phone.js",
    "classroom/projector.js",
    "classroom/drawing.js",
    "classroom/desk.js",
    "base/room.js",
    "vendor/lit-html.js",
)
BODY_MOST, STEP_MOST = 2048, 16384  # bytes of a post, and of a lesson's step
WRONG_CODE_S = 1.0  # before a wrong code is answered: guessing all of them takes days
WRONG_CODES_MOST = 20  # that wait at the same time
LINK_MOST = 300  # characters of an address in a QR code
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'"

Handler = Callable[[Request], Awaitable[Response]]
Read = TypeVar("Read", bound=BaseModel)


class Classroom:
    """The rooms of this server, behind routes. `network` is its address for other machines, empty without one. With a
    `verifier` a class may draft."""

    def __init__(
        self, rooms: Rooms, network: str = "", deck: Deck | None = None, verifier: EngineVerifier | None = None
    ) -> None:
        self._rooms, self._network, self._deck, self._verifier = rooms, network, deck, verifier
        self._bells: defaultdict[str, Bell] = defaultdict(Bell)
        self._wrong = 0

    def routes(self) -> list[Route]:
        posts = {
            "/class/rooms": self._open,
            "/class/qr": self._qr,
            "/class/{code}/join": self._join,
            "/class/{code}/answer": self._answer,
            "/class/{code}/propose": self._propose,
            "/class/{code}/turn": self._turn,
            "/class/{code}/show": self._show,
            "/class/{code}/take": self._take,
            "/class/{code}/proposals": self._proposals,
        }
        return [
            Route("/class", _page("projector.html")),
            Route("/join", _page("phone.html")),
            Route("/class/files/{name:path}", _file),
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
            except NoRoomError as error:
                return await self._slowly(error)
            except NotPresenterError as error:
                return JSONResponse({"error": str(error)}, 403)
            except DraftscopeError as error:
                return JSONResponse({"error": str(error)}, 409)

        return answered

    async def _slowly(self, error: NoRoomError) -> Response:
        if self._wrong >= WRONG_CODES_MOST:
            return JSONResponse({"error": "Too many wrong codes at the moment; try again in a minute."}, 429)
        self._wrong += 1
        try:
            await asyncio.sleep(WRONG_CODE_S)
        finally:
            self._wrong -= 1
        return JSONResponse({"error": str(error)}, 404)

    async def _open(self, _: Request) -> Response:
        room = self._rooms.open(self._deck or shipped())
        room.drafts = self._verifier is not None
        for code in [code for code in self._bells if not self._rooms.has(code)]:
            del self._bells[code]
        answer = {"code": room.code, "key": room.key, "network": self._network, "questions": as_json(room.deck)}
        return JSONResponse(answer)

    async def _qr(self, request: Request) -> Response:
        link = str((await _body(request)).get("link", ""))
        if not link or len(link) > LINK_MOST:
            raise DraftscopeError(f"link has {len(link)} characters; a QR code here takes 1 to {LINK_MOST}.")
        return JSONResponse({"image": segno.make_qr(link, error="m").svg_data_uri(border=2, scale=8)})

    async def _join(self, request: Request) -> Response:
        room = self._room(request)
        token = room.join(str((await _body(request)).get("phone", "")))
        self._bells[room.code].count()
        return JSONResponse({"phone": token})

    async def _answer(self, request: Request) -> Response:
        room, body = self._room(request), await _body(request)
        room.answer(str(body.get("phone", "")), _whole(body, "question"), _whole(body, "option"))
        self._bells[room.code].count()
        return Response(status_code=204)

    async def _show(self, request: Request) -> Response:
        room = self._presented(request)
        room.show(_read(LessonStep, await _body(request, STEP_MOST)))
        self._bells[room.code].turn()
        return Response(status_code=204)

    async def _take(self, request: Request) -> Response:
        room = self._presented(request)
        room.take(check_question(_read(Question, await _body(request, STEP_MOST))))
        self._bells[room.code].turn()
        return Response(status_code=204)

    async def _lesson(self, request: Request) -> Response:
        """The class's own as far as it was shown, or the one with this number."""
        room, number = self._room(request), request.query_params.get("number", "")
        if room.phase != "lesson":
            raise DraftscopeError("The class is at a question now; this phone is back with it.")
        return JSONResponse(room.lesson.other(int(number)) if number.isdecimal() else room.lesson.earlier())

    async def _lessons(self, _: Request) -> Response:
        return JSONResponse([steps[0]["title"] for steps in recorded()])

    async def _turn(self, request: Request) -> Response:
        room = self._presented(request)
        if self._verifier is not None and not room.writing.rounds:
            room.writing.prompt = self._verifier.prompt()
        before, bell = room.phase, self._bells[room.code]
        room.turn(str((await _body(request)).get("action", "")))
        bell.turn()
        if room.phase == "draft" != before and self._verifier is not None:
            with suppress(DraftscopeError):  # the class has its words where the engine has no time
                await room.writing.offer(self._verifier.decode)
            bell.turn()
        if room.phase == "verify" and self._verifier is not None:
            try:
                await room.writing.close(self._verifier.decode, *self._verifier.head())
                room.phase = "drafted"
            except BaseException:
                room.phase = "draft"  # the proposals are still there
                raise
            finally:
                bell.turn()
        return JSONResponse(room.state())

    async def _propose(self, request: Request) -> Response:
        room, body = self._room(request), await _body(request)
        room.propose(str(body.get("phone", "")), str(body.get("text", "")))
        self._bells[room.code].count()
        return Response(status_code=204)

    async def _proposals(self, request: Request) -> Response:
        """The presenter sees what is proposed before the class does, and may hide some of it, or show it again."""
        room, body = self._presented(request), await _body(request)
        if "hide" in body and room.phase == "draft":
            room.writing.hidden ^= {str(body["hide"])}
        return JSONResponse(room.writing.proposed())

    async def _events(self, request: Request) -> Response:
        room = self._room(request)
        token = request.query_params.get("phone", "")
        if token:
            room.find_phone(token)
        stream = self._stream(room, token)
        return StreamingResponse(stream, media_type="text/event-stream", headers={"cache-control": "no-store"})

    async def _stream(self, room: Room, token: str) -> AsyncIterator[str]:
        bell = self._bells[room.code]
        if not token:
            async for event in follow(room, bell, room.state, PRESENTER_S):
                yield event
            return
        room.come(token)
        bell.count()
        try:
            async for event in follow(room, bell, lambda: room.state_for(token), PHONE_S):
                yield event
        finally:
            room.leave(token)
            bell.count()

    def _presented(self, request: Request) -> Room:
        return self._rooms.present(request.path_params["code"], request.headers.get(KEY, ""))

    def _room(self, request: Request) -> Room:
        return self._rooms.find(request.path_params["code"])


async def _body(request: Request, most: int = BODY_MOST) -> dict[str, Any]:
    body = await request.body()
    if len(body) > most:
        raise DraftscopeError(f"The request has {len(body)} bytes; this one takes {most}.")
    try:
        read = json.loads(body or b"{}")
    except ValueError:
        read = None
    if not isinstance(read, dict):
        raise DraftscopeError("The request is not a JSON object; reload the page.")
    return read


def _read(kind: type[Read], body: dict[str, Any]) -> Read:
    """What the presenter's page has sent. Raises `DraftscopeError` for anything else."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        raise DraftscopeError(f"{place}: {error.errors()[0]['msg']}; reload the page.") from None


def _whole(body: dict[str, Any], name: str) -> int:
    value = body.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise DraftscopeError(f"{name} is not a whole number; reload the page.")
    return value


def _page(name: str) -> Handler:
    async def page(_: Request) -> Response:
        headers = {"content-security-policy": POLICY, "cache-control": "no-cache", "referrer-policy": "no-referrer"}
        return FileResponse(FOLDER / name, headers=headers)

    return page


async def _file(request: Request) -> Response:
    name = request.path_params["name"]
    if name == "style.css":
        return Response(_style(), media_type="text/css")
    if name not in FILES:
        return PlainTextResponse("There is no such file.", 404)
    return FileResponse(assets() / "instrument" / name, media_type="text/javascript")


def _style() -> str:
    """The classroom's style sheet after the colours of both palettes, chosen by the device."""
    dark = css_variables(palette()["dark"])
    css = (FOLDER / "style.css").read_text(encoding="utf-8")
    return f"{root_colours()}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n{css}"
