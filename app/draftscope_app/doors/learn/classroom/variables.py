"""How many classes and phones a server of the page takes, from its environment."""

from __future__ import annotations

from pydantic import Field

from draftscope_app.engine import variables


class Variables(variables.Variables):
    max_rooms: int = Field(
        20,
        alias="DRAFTSCOPE_MAX_ROOMS",
        ge=0,
        description="most classes at the same time, a fourth of them of one address; 0: visitors open none",
    )
    max_phones: int = Field(300, alias="DRAFTSCOPE_MAX_PHONES", ge=1, description="most phones of one class")
