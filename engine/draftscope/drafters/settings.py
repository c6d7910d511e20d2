"""The settings of one decoding run: what every run has, and the options of its drafter. Imports no torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, TypeVar

from pydantic import ConfigDict, ValidationError, model_validator
from pydantic.fields import FieldInfo

from draftscope.base.common_settings import GeneralSettings, sentence
from draftscope.base.errors import DraftscopeError
from draftscope.drafters.options import DECLARING, DrafterOptions
from draftscope.drafters.registry import known_options, validated

Method = TypeVar("Method", bound=Callable[..., Any])
OptionsT = TypeVar("OptionsT", bound=DrafterOptions)


class Settings(GeneralSettings):
    """One run. Options are given flat, beside the general settings: `Settings.of(drafter="draft", gamma=4, seed=7)`.

    Every known option is accepted and validated, whichever drafter reads it; unknown names are refused. `model_dump`
    is flat as well and holds the options that were given. A drafter reads its own with `options`. The names:

    """

    model_config = ConfigDict(extra="allow")  # the options that were given; `_validated` lets no other name in

    @model_validator(mode="before")
    @classmethod
    def _validated(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        general = {name: value for name, value in values.items() if name in cls.model_fields}
        return general | validated({name: value for name, value in values.items() if name not in general})

    @classmethod
    def of(cls, **values: Any) -> Settings:
        """Validated settings, or a `DraftscopeError` that names the value and its range."""
        try:
            return cls(**values)
        except ValidationError as error:
            raise DraftscopeError(sentence(error, known_settings())) from None

    def options(self, kind: type[OptionsT]) -> OptionsT:
        """The options of a drafter that reads `kind`: those that were given, and defaults for the others."""
        given = self.model_extra or {}
        try:
            return kind(**{name: given[name] for name in kind.model_fields if name in given})
        except ValidationError as error:
            raise DraftscopeError(sentence(error, kind.model_fields)) from None


def known_settings() -> dict[str, FieldInfo]:
    """Every name that `Settings.of` takes, and its field: the general settings, then all options."""
    return GeneralSettings.model_fields | {name: option.field for name, option in known_options().items()}


class SettingValues(TypedDict, total=False):
    """The settings of a run as keyword arguments, for type checkers and editors; a test holds them to `known_settings`.

    What a drafter of another package declares is accepted as well.
    """

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    seed: int
    max_new_tokens: int
    raw: bool
    system: str
    thinking: bool
    stop: str | Sequence[str]
    gamma: int
    draft_length: Literal["fixed", "cost", "confidence", "heuristic", "specdec++", "adaedl"]
    confidence: float
    shape: Sequence[int]
    tree_nodes: int
    tree_depth: int
    tree_width: int
    ngram: int
    window: int
    inner: Literal["ngram", "suffix", "none"]
    exit_layer: int | None
    oracle_alpha: float
    oracle_curve: Sequence[float]
    prefetch: int
    policy: Literal["ucb", "exp3", "thompson"]
    arms: Sequence[str]
    typed: str
    rule: Literal["block", "token", "typical", "lenient", "top-k"]
    lenience: float
    agreement: int


DECLARED = {name: field for kind in (GeneralSettings, *DECLARING) for name, field in kind.model_fields.items()}
_LINES = [f"    {name} = {field.default!r}: {field.description}" for name, field in DECLARED.items()]
Settings.__doc__ = "\n".join([(Settings.__doc__ or "").rstrip(), "", *_LINES])


def takes_settings(method: Method) -> Method:
    """Names every setting and its default in the signature of a method with `**settings: Unpack[SettingValues]`, so
    that a notebook completes them and `help` lists them."""
    signature = inspect.signature(method)
    kept = [parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    names = set(DECLARED) - {parameter.name for parameter in kept} - {"drafter"}
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.annotation)
        for name, field in DECLARED.items()
        if name in names
    ]
    method.__signature__ = signature.replace(parameters=[*kept, *more])  # type: ignore[attr-defined]
    return method
