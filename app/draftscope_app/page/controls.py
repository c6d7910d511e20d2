"""Between the page's controls, the address's query and the engine's settings. Pure; no gradio, no engine process.

The controls are those of `draftscope.drafters.settings`: every option of a drafter, of other packages too, and every
general setting that has a `Control`. Their values are kept by name, as the widgets hold them: a tuple is a text.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from draftscope.base.common_settings import Control, GeneralSettings
from draftscope.base.errors import DraftscopeError
from draftscope.drafters.options import ChainOptions
from draftscope.drafters.registry import known_options
from draftscope.drafters.settings import Settings
from draftscope_app.engine.jobs import DrafterChoice, new_id
from draftscope_app.engine.run_job import RunJob

FIRST_READS = tuple(ChainOptions.model_fields)  # by the drafter that the page opens with
LANE = "speculative"  # the drafting lane's name; the other one is "plain"
SOLO_REPEATS = 3  # whole runs of each lane after a race

Controls = Mapping[str, Any]  # prompt, drafter and every setting, by name; the names are the address's too


def options() -> dict[str, FieldInfo]:
    """The drafters' options, in the order in which the page lists them. Each is shown with drafters that read it."""
    return {name: option.field for name, option in known_options().items()}


def general() -> dict[str, FieldInfo]:
    """The settings of every run that the page offers."""
    return {name: field for name, field in GeneralSettings.model_fields.items() if Control.of(field) is not None}


def names() -> tuple[str, ...]:
    """Of all controls, in order."""
    return "prompt", "drafter", *options(), *general()


def visible_if() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Options that are read only while another one has one of these values: option -> (other, values)."""
    controls = ((name, Control.of(field)) for name, field in options().items())
    return {name: control.visible_if for name, control in controls if control is not None and control.visible_if}


def defaults() -> dict[str, Any]:
    """Every control at its default."""
    values = {name: default_of(field) for name, field in (options() | general()).items()}
    return {"prompt": "", "drafter": GeneralSettings.model_fields["drafter"].default} | values


def labels() -> dict[str, dict[str, Any]]:
    """Setting -> {"label", "choices": {value: words}}: the names under which the page shows them."""
    shown_names = {}
    for name, field in (options() | general()).items():
        control = Control.of(field) or Control()
        values = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
        choices = dict(zip(values, control.choices, strict=False))
        shown_names[name] = {"label": label_of(name, field), "choices": choices}
    return shown_names


def label_of(name: str, field: FieldInfo) -> str:
    """What the page calls a setting."""
    return (Control.of(field) or Control()).label or name.replace("_", " ").capitalize()


def default_of(field: FieldInfo) -> Any:
    """A setting's default as its widget holds it."""
    if isinstance(field.default, tuple):
        return ", ".join(map(str, field.default))
    return "" if field.default is None else field.default


def from_query(query: Mapping[str, str], standing: Controls) -> tuple[Controls, str]:
    """The settings of an address, and one sentence about those that could not be read; they keep their default."""
    values, odd = dict(standing), []
    for name in names():
        if name not in query:
            continue
        try:
            values[name] = _from_text(query[name], standing[name])
        except ValueError:
            odd.append(f"{name} = {query[name][:40]!r}")
    sentence = f"The address holds {' and '.join(odd)}, which is not a number; the default is used." if odd else ""
    return values, sentence


def _from_text(text: str, default: Any) -> Any:
    """A value of the default's type. Raises `ValueError` if the text is not one."""
    if isinstance(default, bool):
        return text == "true"
    value = type(default)(text)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(text)
    return value


def race_of(controls: Controls, drafter: DrafterChoice | None, steps: int | None) -> RunJob:
    """The lanes raced, or decoded in `steps`."""
    pair = lanes(controls, drafter)
    solo = SOLO_REPEATS if steps is None and len(pair) > 1 else 0
    return RunJob(id=new_id(), prompt=controls["prompt"], lanes=pair, steps=steps, solo_repeats=solo)


def lanes(controls: Controls, drafter: DrafterChoice | None) -> dict[str, Settings]:
    """The lanes to race, validated: plain beside the chosen drafter, or plain alone."""
    common = {name: as_setting(name, field, controls[name]) for name, field in general().items()}
    if drafter is not None and not drafter.available:
        raise DraftscopeError(f"The drafter '{drafter.name}' cannot run here: {drafter.why_not}; choose another.")
    plain = Settings.of(**common, drafter="plain")
    if controls["drafter"] == "plain":
        return {"plain": plain}
    uses = read_by(drafter, controls)
    read = {name: field for name, field in options().items() if is_read(name, uses, controls)}
    options_read = {name: as_setting(name, field, controls[name]) for name, field in read.items()}
    if drafter is not None and drafter.is_typed and not controls["typed"]:
        raise DraftscopeError("The typed draft is empty; write how you think the text goes on.")
    return {"plain": plain, LANE: Settings.of(**common, drafter=controls["drafter"], **options_read)}


def read_by(drafter: DrafterChoice | None, values: Controls) -> Collection[str]:
    """The options that a drafter reads. Until the engine has said it, those that the first one does, and those that
    were set: by an address, and the browser shows those too."""
    if drafter is not None:
        return drafter.uses
    return [name for name, field in options().items() if name in FIRST_READS or values[name] != default_of(field)]


def is_read(name: str, uses: Collection[str], values: Mapping[str, Any]) -> bool:
    """Whether a drafter that `uses` these options reads that one while they have these values. The browser shows by the
    same rule, without asking: `isRead` of host/visible.js."""
    other, wanted = visible_if().get(name, ("", ()))
    return name in uses and (not other or (other in uses and values[other] in wanted))


def as_setting(name: str, field: FieldInfo, value: Any) -> Any:
    """What a widget holds as the setting that it stands for; ranges are for `Settings` to say."""
    kinds = get_args(field.annotation) or (field.annotation,)
    if get_origin(field.annotation) is tuple:
        return listed(name, field, value)
    if type(None) in kinds and not str(value if value is not None else "").strip():
        return None
    return _whole(name, value) if int in kinds else value


def listed(name: str, field: FieldInfo, text: Any) -> tuple[Any, ...]:
    """'3, 2, 1' -> (3, 2, 1), '3x2x1' too; 'draft:2, ngram' -> ('draft:2', 'ngram')."""
    element = get_args(field.annotation)[0]
    kind = getattr(element, "__origin__", element)
    parts = str(text).replace("x", ",").replace("×", ",").split(",") if kind is int else str(text).split(",")
    items = [part.strip() for part in parts if part.strip()]
    try:
        return tuple(kind(part) for part in items)
    except ValueError:
        what, example = ("whole numbers", "3,2,1") if kind is int else ("numbers", ".7,.6,.5")
        raise DraftscopeError(
            f"{name} = {text!r}: write {what} with commas between them, such as {default_of(field) or example}."
        ) from None


def _whole(name: str, value: Any) -> int:
    try:
        number = float(value)
        if number != int(number):
            raise ValueError(name)
        return int(value) if isinstance(value, int) else int(number)
    except (TypeError, ValueError, OverflowError):
        raise DraftscopeError(f"{name} = {value!r}: a whole number is needed.") from None
