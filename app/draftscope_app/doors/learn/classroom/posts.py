"""What pages of a class send: read in one place, so that none of it can be what a state cannot say again."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from draftscope.base.admit import admit
from draftscope.base.errors import DraftscopeError

BODY_MOST, STEP_MOST = 2048, 16384  # bytes of a post, and of a lesson's step

Read = TypeVar("Read", bound=BaseModel)


async def read_body(request: Request, most: int = BODY_MOST) -> dict[str, Any]:
    """The JSON object of a post. Raises `DraftscopeError` for anything else, for numbers that are not finite, and for
    text that is no Unicode: what one phone sends is said to all others."""
    body = await request.body()
    if len(body) > most:
        raise DraftscopeError(f"The request has {len(body)} bytes; this one takes {most}.")
    try:
        read = json.loads(body or b"{}")
        said = json.dumps(read, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        read, said = None, ""
    if not isinstance(read, dict):
        raise DraftscopeError("The request is not a JSON object with finite numbers; reload the page.")
    admit({"The text": said})
    return read


def read_as(kind: type[Read], body: dict[str, Any]) -> Read:
    """What the presenter's page has sent. Raises `DraftscopeError` for anything else."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        raise DraftscopeError(f"{place}: {error.errors()[0]['msg']}; reload the page.") from None


def text_in(body: dict[str, Any], name: str) -> str:
    """A text of the post; empty without one."""
    value = body.get(name, "")
    if not isinstance(value, str):
        raise DraftscopeError(f"{name} is not a text; reload the page.")
    return value


def whole_in(body: dict[str, Any], name: str) -> int:
    """A whole number of the post."""
    value = body.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise DraftscopeError(f"{name} is not a whole number; reload the page.")
    return value
