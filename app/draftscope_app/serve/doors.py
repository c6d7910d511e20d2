"""The doors that have a folder, as the page and the server take them."""

from __future__ import annotations

from starlette.routing import Route

from draftscope_app.doors.door import DoorFolder, doors, tasks
from draftscope_app.engine.admission import Admission
from draftscope_app.engine.site import Site
from draftscope_app.page.page import PageDoor


def page_doors() -> list[PageDoor]:
    """In order."""
    return [_page_door(folder) for folder in doors()]


def _page_door(folder: DoorFolder) -> PageDoor:
    folders = [folder, *folder.tasks]
    pages = [part for part in (one.part("page") for one in folders) if hasattr(part, "Page")]
    cards = {one.mount: one.path for one in folders if one.has("card.js")}
    styles = [one.path / "page.css" for one in folders if one.has("page.css")]
    lay_out = getattr(folder.part("page"), "lay_out", None)
    door = folder.door
    return PageDoor(door.name, door.title, door.sentence, [part.Page for part in pages], cards, styles, lay_out)


def routes(site: Site, admission: Admission) -> list[Route]:
    """Addresses that tasks have beside the page."""
    parts = [part for part in (folder.part("server") for folder in tasks()) if part is not None]
    return [route for part in parts for route in part.routes(site, admission)]
