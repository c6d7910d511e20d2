"""What a server of the page reads from its environment about servers of other programs."""

from __future__ import annotations

from pydantic import Field

from draftscope.servers.programs.program_list import asked_programs, titles
from draftscope_app.engine import variables


class Variables(variables.Variables):
    servers: str = Field(
        "",
        alias="DRAFTSCOPE_SERVERS",
        description=f"{titles(asked_programs())} for the page's Servers view and for "
        "`draftscope race`: NAME=URL, separated by commas",
    )
