"""The class beside the page: its rooms, and their addresses."""

from __future__ import annotations

from starlette.routing import Route

from draftscope_app.doors.learn.classroom.class_routes import Classroom
from draftscope_app.doors.learn.classroom.deck import Deck
from draftscope_app.doors.learn.classroom.rooms import Rooms
from draftscope_app.doors.learn.classroom.variables import Variables
from draftscope_app.doors.learn.classroom.verifier import EngineVerifier
from draftscope_app.engine.admission import Admission
from draftscope_app.engine.site import Site


def routes(site: Site, admission: Admission) -> list[Route]:
    most = site.environment.of(Variables)
    rooms = Rooms(most.max_rooms, most.max_phones)
    return Classroom(rooms, site.network, site.find(Deck), EngineVerifier(admission)).routes()
