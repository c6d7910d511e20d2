"""Variables of the environment as the fields of a model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from draftscope.base.errors import DraftscopeError


class Variables(BaseModel):
    """What one part of the program reads. Frozen; the alias of each field is the name of its variable."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    @classmethod
    def read(cls, variables: Mapping[str, str] | None = None) -> Self:
        """Their values in the environment, or in `variables`; an empty variable counts as absent.

        Raises `DraftscopeError` for a value out of range.
        """
        given = os.environ if variables is None else variables
        try:
            return cls.model_validate({name: given[name] for name, _, _ in cls.rows() if given.get(name)})
        except ValidationError as error:
            first = error.errors()[0]
            remedy = first["msg"].removeprefix("Input ")
            raise DraftscopeError(f"{first['loc'][0]} = {repr(first['input'])[:80]}: {remedy}.") from None

    @classmethod
    def rows(cls) -> list[tuple[str, str, str]]:
        """Of each variable its name, its default and what it means."""
        return [
            (str(field.alias), "" if field.default is None else str(field.default), str(field.description))
            for field in cls.model_fields.values()
        ]
