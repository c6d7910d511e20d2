"""The settings of one decoding run: what every run has, and the options of its drafter. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ConfigDict, ValidationError, model_validator
from pydantic.fields import FieldInfo

from draftscope.base.errors import DraftscopeError
from draftscope.base.settings import GeneralSettings, sentence
from draftscope.drafters.options import DrafterOptions, known_options, validated

OptionsT = TypeVar("OptionsT", bound=DrafterOptions)


class Settings(GeneralSettings):
    """One run. Options are given flat, beside the general settings: `Settings.of(drafter="draft", gamma=4, seed=7)`.

    Every known option is accepted and validated, whichever drafter reads it; unknown names are refused. `model_dump`
    is flat as well and holds the options that were given. A drafter reads its own with `options`.
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
