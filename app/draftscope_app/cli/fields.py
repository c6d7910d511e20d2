"""Options from the fields of a model: one option for each field, with its type, default and range in the help.

A command that wants such options names a parameter for them:

    @takes(chosen=options_of(Options.model_fields))
    def decode(prompt: ..., chosen: Given) -> int:

`chosen` then holds the options that were given on the command line, by field. Ranges and choices are checked by the
model, so that a value out of range gets the same sentence everywhere.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from enum import Enum
from functools import wraps
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import typer
from pydantic import BaseModel, Field, ValidationError
from pydantic.fields import FieldInfo

from draftscope.base.common_settings import sentence
from draftscope.base.errors import DraftscopeError, quoted

Given = Mapping[str, Any]  # field -> what the command line says; fields that were not given are absent
Command = Callable[..., int]
Number = TypeVar("Number", int, float)
Options = TypeVar("Options", bound=BaseModel)

UNBOUNDED = 1e9  # a limit beyond this is of the machine, and the help does not mention it


def options_of(fields: Mapping[str, FieldInfo], by_commas: frozenset[str] = frozenset()) -> list[inspect.Parameter]:
    """One keyword parameter for each field, as Typer reads it; each is None where it was not given.

    A bool becomes a switch. A tuple of texts becomes an option that may be repeated; other tuples, and the fields in
    `by_commas`, take one list with commas.
    """
    return [_option(name, field, name in by_commas) for name, field in fields.items()]


def option(about: str, default: Any = ..., panel: str | None = None, metavar: str | None = None, **limits: Any) -> Any:
    """A field of a command's options, for `options_of`: without a default it must be given. `panel` is the heading in
    the help, `metavar` the word behind the option where its type says too little."""
    return Field(default, description=about, json_schema_extra={"panel": panel, "metavar": metavar}, **limits)


def typed(kind: Any, made: FieldInfo) -> FieldInfo:
    """What `option` made, with the type that a field of a model would have."""
    made.annotation = kind
    return made


def changed(field: FieldInfo, **values: Any) -> FieldInfo:
    """The field with other attributes, such as its default."""
    other = copy(field)
    for name, value in values.items():
        setattr(other, name, value)
    return other


def read_options(model: type[Options], given: Given) -> Options:
    """A command's options, or a `DraftscopeError` that names the value and its range."""
    try:
        return model(**given)
    except ValidationError as error:
        raise DraftscopeError(sentence(error, model.model_fields)) from None


def takes(**bundles: Sequence[inspect.Parameter]) -> Callable[[Command], Command]:
    """Replaces each named parameter of a command by the options of its bundle; the command receives a `Given`. The help
    shows a command's own parameters first, and those behind a `*` last."""

    def decorated(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        kept = [parameter for parameter in signature.parameters.values() if parameter.name not in bundles]
        last = [parameter for parameter in kept if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
        options = [option for bundle in bundles.values() for option in bundle]
        every = [*(parameter for parameter in kept if parameter not in last), *options, *last]

        @wraps(command)
        def called(**values: Any) -> int:
            given = {
                name: {option.name: value for option in bundle if (value := values.pop(option.name)) is not None}
                for name, bundle in bundles.items()
            }
            return command(**values, **given)

        called.__signature__ = signature.replace(parameters=every)  # type: ignore[attr-defined]
        return called

    return decorated


def whole(given: str) -> int:
    """Parses a whole number. Typer's own message would not name the value."""
    return _number(given, int, "a whole number")


def decimal(given: str) -> float:
    """Parses a number, which 'nan' is not; nor is anything without end."""
    return _number(given, _finite, "a number")


def _finite(given: str) -> float:
    if not math.isfinite(number := float(given)):
        raise ValueError
    return number


def _number(given: str, kind: Callable[[str], Number], what: str) -> Number:
    try:
        return kind(given)
    except ValueError:
        raise typer.BadParameter(f"'{quoted(given)}' is not {what}") from None


PARSERS: Mapping[Any, Callable[[str], Any]] = {int: whole, float: decimal}


def listed(value: Any) -> str:
    """A default in the help. Texts get a space behind each comma, where the help may break the line."""
    if isinstance(value, tuple | list):
        return (", " if isinstance(value[0], str) else ",").join(map(listed, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _extra(field: FieldInfo, name: str) -> str | None:
    extra = field.json_schema_extra
    return str(extra[name]) if isinstance(extra, dict) and extra.get(name) else None


def _option(name: str, field: FieldInfo, by_commas: bool) -> inspect.Parameter:
    kind, flag = _plain(field.annotation), f"--{name.rstrip('_').replace('_', '-')}"
    annotation: Any = str
    more: dict[str, Any] = {"metavar": _extra(field, "metavar") or _metavar(kind)}
    if kind is bool:
        annotation, more = bool, {}
        flag = f"{flag}/--no-{flag[2:]}" if field.default is True else flag
    elif _repeated(kind, by_commas):
        annotation = list[str]
    elif _is_list(kind):
        annotation, more["parser"] = Any, _by_commas(_element(kind))
    elif kind in PARSERS:
        annotation, more["parser"] = kind, PARSERS[kind]
    elif choices := _choices(kind):
        more["autocompletion"] = lambda: choices
    more |= {"help": _help(field, kind, by_commas), "rich_help_panel": _extra(field, "panel")}
    info = typer.Option(flag, show_default=False, **more)
    default, kinds = (inspect.Parameter.empty, annotation) if field.is_required() else (None, annotation | None)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kinds, info])


def _repeated(kind: Any, by_commas: bool) -> bool:
    return _is_list(kind) and _element(kind) is str and not by_commas


def _is_list(kind: Any) -> bool:
    return get_origin(kind) in (tuple, list, Sequence)


def _element(kind: Any) -> Any:
    return _plain(get_args(kind)[0])


def _by_commas(element: Any) -> Callable[[str], list[Any]]:
    """Parses `2,3,4`; of texts, empty ones are left out."""

    def parse(given: str) -> list[Any]:
        words = [word.strip() for word in given.split(",")]
        if element not in PARSERS:
            if not any(words):
                raise typer.BadParameter(f"'{quoted(given)}' names nothing; give names separated by commas")
            return [word for word in words if word]
        try:
            return [_finite(word) if element is float else element(word) for word in words]
        except ValueError:
            numbers = "whole numbers" if element is int else "numbers"
            raise typer.BadParameter(f"'{quoted(given)}' is not a list of {numbers} separated by commas") from None

    return parse


def _plain(annotation: Any) -> Any:
    """The type of a field without `Annotated` and without `| None`."""
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        kinds = [part for part in get_args(annotation) if part is not NoneType]
        return _plain(kinds[0]) if len(kinds) == 1 else str
    return annotation


def _choices(kind: Any) -> list[str]:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [str(value) for value in kind]
    return [str(value) for value in get_args(kind)] if get_origin(kind) is Literal else []


def _metavar(kind: Any) -> str:
    if _is_list(kind):
        return _metavar(_element(kind)) + ("" if _element(kind) is str else ",...")
    if _choices(kind):
        return "NAME"
    return {int: "N", float: "X"}.get(kind, "TEXT")


def _help(field: FieldInfo, kind: Any, by_commas: bool) -> str:
    """The description, then in brackets what may be given and the default. Brackets are markup to rich: escaped."""
    notes = [", ".join(_choices(kind)), _range(field), _default(field, kind, by_commas)]
    shown = "; ".join(note for note in notes if note)
    about = (field.description or "").replace("[", r"\[")
    return f"{about} \\[{shown}]" if shown else about


def _default(field: FieldInfo, kind: Any, by_commas: bool) -> str:
    if _repeated(kind, by_commas):
        return "may be repeated"
    return (
        ""
        if kind is bool or field.is_required() or field.default in ("", None, ())
        else f"default: {listed(field.default)}"
    )


def _range(field: FieldInfo) -> str:
    """`1 to 64`, `above 0, up to 1`; empty without limits. They are in the metadata, as `annotated_types` has them."""
    bounds: dict[str, float] = {}
    for part in field.metadata:
        bounds |= {name: bound for name in ("ge", "gt", "le", "lt") if (bound := getattr(part, name, None)) is not None}
    bounds = {name: bound for name, bound in bounds.items() if abs(bound) < UNBOUNDED}
    if bounds.keys() == {"ge", "le"}:
        return f"{_bound(bounds['ge'])} to {_bound(bounds['le'])}"
    words = {"ge": "at least", "gt": "above", "le": "up to", "lt": "below"}
    return ", ".join(f"{words[name]} {_bound(bounds[name])}" for name in words if name in bounds)


def _bound(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"
