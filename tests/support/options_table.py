"""The options of all drafters as a Markdown table, for the engine's README; a test holds the two equal."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from draftscope.base import markdown
from draftscope.drafters.registry import known, known_options

SIGNS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
HEAD = ("option", "default", "values", "meaning", "drafters")


def options_table() -> str:
    """A row for each option in the order of the command line, with the drafters that read it."""
    drafters = known().values()
    rows = [
        (
            f"`{name}`",
            _shown(option.field.default),
            _values(option.field),
            option.field.description or "",
            ", ".join(f"`{info.name}`" for info in drafters if name in info.uses),
        )
        for name, option in known_options().items()
    ]
    return markdown.table(HEAD, rows)


def _shown(value: Any) -> str:
    """As the command line takes it; empty where nothing is given."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "" if value is None else str(value)


def _values(field: FieldInfo) -> str:
    """Which values the option takes."""
    if get_origin(field.annotation) is Literal:
        return ", ".join(get_args(field.annotation))
    if get_origin(field.annotation) is tuple:
        return "several, with commas between them"
    ends = {end: getattr(bound, end) for bound in field.metadata for end in SIGNS if hasattr(bound, end)}
    if {"ge", "le"} <= ends.keys():
        return f"{ends['ge']:g} to {ends['le']:g}"
    return ", ".join(f"{SIGNS[end]} {value:g}" for end, value in ends.items())
