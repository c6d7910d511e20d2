"""What every decoding run has, whoever drafts: names, ranges, and one sentence for a value that is out of range."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import wraps
from inspect import signature
from typing import Annotated, ParamSpec, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic.fields import FieldInfo

from draftscope.base.errors import DraftscopeError

P = ParamSpec("P")
R = TypeVar("R")
LOSSY = ("typical", "lenient", "top-k")  # rules whose output is not the target's distribution
LISTS = {  # what pydantic says of tuples, by its types of errors
    "tuple_type": "should be a list",
    "too_short": "should have at least {min_length}",
    "too_long": "should have at most {max_length}",
}
MIN_TEMPERATURE = 1e-30  # logits divided by less overflow in fp32, and the softmax of infinities is NaN


@dataclass(frozen=True)
class Control:
    """How a page shows a setting: what its field, in whose `Annotated` this stands, does not say itself. Whatever is
    left out follows from the field's name, type, range and default."""

    label: str = ""
    least: float | None = None  # ends of a slider, where the field allows more
    most: float | None = None
    step: float | None = None
    choices: tuple[str, ...] = ()  # labels of the values of a `Literal`, in their order
    lines: int = 1  # of a text
    placeholder: str = ""  # shown while a text is empty
    visible_if: tuple[str, tuple[str, ...]] | None = None  # shown only while that other setting has one of these values
    advanced: bool = False  # shown among the settings that are rarely changed

    @classmethod
    def of(cls, field: FieldInfo) -> Control | None:
        """The field's own; None where it has none."""
        return next((item for item in field.metadata if isinstance(item, cls)), None)


class GeneralSettings(BaseModel):
    """The settings of a run that do not depend on its drafter. Frozen; unknown names are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    drafter: str = Field(default="draft", description="name of the drafter; 'draftscope drafters' lists them")
    temperature: Annotated[float, Control("Temperature", most=2, step=0.05)] = Field(
        default=0.0, ge=0.0, le=10.0, description="0 is greedy"
    )
    top_k: Annotated[int, Control("Top-k (0: all tokens)", advanced=True)] = Field(
        default=0, ge=0, description="samples from this many most likely tokens; 0 keeps every token"
    )
    top_p: Annotated[float, Control("Top-p", least=0.05, step=0.01, advanced=True)] = Field(
        default=1.0,
        gt=0.0,
        le=1.0,
        description="samples from the smallest set of tokens with this probability; 1 keeps every token",
    )
    min_p: Annotated[float, Control("Min-p (0: all tokens)", most=0.99, step=0.01, advanced=True)] = Field(
        default=0.0, ge=0.0, lt=1.0, description="least probability of a token, relative to the most likely token's"
    )
    seed: Annotated[int, Control("Seed")] = Field(default=0, ge=0, lt=2**63, description="seed of every random draw")
    max_new_tokens: Annotated[int, Control("Length, tokens", least=8, most=512, step=8)] = Field(
        default=128, ge=1, le=1_000_000, description="most tokens to write"
    )
    raw: bool = Field(default=False, description="continue the prompt as it stands, without the model's chat template")
    system: str = Field(default="", max_length=20_000, description="system message of a chat")
    thinking: bool = Field(default=False, description="let a chat model think first, if its template supports that")
    stop: tuple[str, ...] = Field(default=(), max_length=16, description="strings that end the text")

    @field_validator("temperature")
    @classmethod
    def _divides_in_fp32(cls, temperature: float) -> float:
        if 0.0 < temperature < MIN_TEMPERATURE:
            raise ValueError(
                f"too small to divide by in fp32; choose 0 for greedy decoding, or at least {MIN_TEMPERATURE:g}"
            )
        return temperature

    @field_validator("stop", mode="before")
    @classmethod
    def _one_or_several(cls, stop: object) -> object:
        """A single stop string may be given without a tuple around it."""
        return (stop,) if isinstance(stop, str) else stop

    @field_validator("stop")
    @classmethod
    def _no_empty_stop(cls, stop: tuple[str, ...]) -> tuple[str, ...]:
        if any(not s for s in stop):
            raise ValueError("holds an empty string, which would end every text at once; leave it out")
        return stop


def sentence(error: ValidationError, known: Iterable[str]) -> str:
    """The first problem of a validation error in one sentence: setting, value, remedy. `known` are all settings."""
    first = error.errors()[0]
    name = str(first["loc"][0]) if first["loc"] else "settings"
    if first["type"] == "extra_forbidden":
        return unknown(name, known)
    given = repr(first["input"])
    remedy = LISTS.get(first["type"], "").format(**first.get("ctx", {}))
    remedy = remedy or first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{name} = {given[:80]}: {remedy}."


def refuse_unknown_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Makes `DraftscopeError` of an argument that this function does not have, where Python has a `TypeError`."""
    known = [name for name in signature(function).parameters if name != "self"]

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs.keys() - set(known):
            raise DraftscopeError(unknown(name, known, "argument"))
        return function(*args, **kwargs)

    return called


def unknown(name: str, known: Iterable[str], what: str = "setting") -> str:
    """One sentence for a setting that does not exist, with the nearest name or all names."""
    names = list(known)
    near = get_close_matches(name, names, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(names)}."
    return f"There is no {what} '{name}'; {hint}"
