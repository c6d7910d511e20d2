"""What a server reads from its environment: one table of names, defaults and meanings, which app/DEPLOY.md shows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from draftscope.base import markdown
from draftscope.base.errors import DraftscopeError
from draftscope.base.load_settings import LoadSettings
from draftscope.servers.programs.program_list import asked_programs, titles
from draftscope_app.engine.beats import SILENT_S
from draftscope_app.engine.log import Kind

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Environment(BaseModel):
    """A server's settings. Frozen; the alias of each field is the name of its variable."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    host: str = Field("0.0.0.0", alias="GRADIO_SERVER_NAME", description="address to listen on")
    port: int = Field(7860, alias="GRADIO_SERVER_PORT", ge=1, le=65535, description="port to listen on")
    root_path: str = Field(
        "", alias="GRADIO_ROOT_PATH", description="path or full address under which a proxy serves the page"
    )
    target: str = Field(
        "",
        alias="DRAFTSCOPE_TARGET",
        description="hub id, folder, or a name such as embedded; empty: smollm2, else embedded",
    )
    draft: str = Field(
        "", alias="DRAFTSCOPE_DRAFT", description="hub id or folder of the draft model; several for a cascade: A,B"
    )
    heads: str = Field("", alias="DRAFTSCOPE_HEADS", description="heads as KIND:MODEL, separated by commas")
    drafter: str = Field(
        "",
        alias="DRAFTSCOPE_DRAFTER",
        description="drafter selected when the page opens; empty: one that drafts a tree",
    )
    dtype: str = Field("auto", alias="DRAFTSCOPE_DTYPE", description="auto, float32, bfloat16, float16 or stored")
    device: str = Field("auto", alias="DRAFTSCOPE_DEVICE", description="auto, cpu or cuda")
    threads: int | None = Field(
        None, alias="DRAFTSCOPE_THREADS", ge=1, description="threads on a CPU; empty: the fastest number, measured"
    )
    max_tokens: int = Field(
        2048, alias="DRAFTSCOPE_MAX_TOKENS", ge=8, description="most tokens that a visitor's run may write"
    )
    max_runs: int = Field(
        64,
        alias="DRAFTSCOPE_MAX_RUNS",
        ge=1,
        description="most running and queued runs at a time; further runs are refused",
    )
    max_runs_visitor: int = Field(
        16,
        alias="DRAFTSCOPE_MAX_RUNS_VISITOR",
        ge=1,
        description="the same of one visitor: a session of the page, or all calls of one address",
    )
    max_runs_address: int = Field(
        32,
        alias="DRAFTSCOPE_MAX_RUNS_ADDRESS",
        ge=1,
        description="the same of one address; higher where a proxy hides those of the visitors",
    )
    max_text: int = Field(
        65536,
        alias="DRAFTSCOPE_MAX_TEXT",
        ge=256,
        description="most characters of a prompt or other text of a visitor",
    )
    max_kept_mb: int = Field(
        256,
        alias="DRAFTSCOPE_MAX_KEPT_MB",
        ge=1,
        description="memory for the runs that visitors see, in MiB; the least recently used are removed first",
    )
    max_upload_mb: int = Field(
        64,
        alias="DRAFTSCOPE_MAX_UPLOAD_MB",
        ge=1,
        le=512,
        description="largest trace that can be loaded, in MiB unpacked",
    )
    max_rooms: int = Field(
        20,
        alias="DRAFTSCOPE_MAX_ROOMS",
        ge=0,
        description="most classes at the same time, a fourth of them of one address; 0: visitors open none",
    )
    max_phones: int = Field(300, alias="DRAFTSCOPE_MAX_PHONES", ge=1, description="most phones of one class")
    silent_s: float = Field(
        SILENT_S,
        alias="DRAFTSCOPE_SILENT_S",
        ge=10,
        description="seconds without an answer after which the engine process is ended and started again; loading "
        "models and long prompts do not count",
    )
    grace_s: float = Field(
        10.0,
        alias="DRAFTSCOPE_GRACE_S",
        ge=0,
        description="seconds from the request to end until the server has ended; runs may finish meanwhile",
    )
    load_models: bool | None = Field(
        None,
        alias="DRAFTSCOPE_LOAD_MODELS",
        description="1: visitors may load models, also from folders; 0: they may not; empty: only if host is 127.0.0.1",
    )
    allowed_hosts: str = Field(
        "",
        alias="DRAFTSCOPE_ALLOWED_HOSTS",
        description="extra host names to accept, separated by commas; checked only where visitors may load models",
    )
    servers: str = Field(
        "",
        alias="DRAFTSCOPE_SERVERS",
        description=f"{titles(asked_programs())} for the page's Servers view and for "
        "`draftscope race`: NAME=URL, separated by commas",
    )
    log: Kind = Field(
        "json", alias="DRAFTSCOPE_LOG", description="json: one line on stderr for each start, run and end; off: none"
    )

    @classmethod
    def read(cls, variables: Mapping[str, str] | None = None) -> Environment:
        """The settings in the environment; an empty variable counts as absent.

        Raises `DraftscopeError` for a value out of range.
        """
        given = os.environ if variables is None else variables
        try:
            return cls.model_validate({name: given[name] for name in names() if given.get(name)})
        except ValidationError as error:
            first = error.errors()[0]
            remedy = first["msg"].removeprefix("Input ")
            raise DraftscopeError(f"{first['loc'][0]} = {repr(first['input'])[:80]}: {remedy}.") from None

    @property
    def load(self) -> LoadSettings:
        """Which models to load."""
        heads = tuple(head.strip() for head in self.heads.split(",") if head.strip())
        return LoadSettings(
            self.target or None, self.draft or None, self.dtype, self.device, threads=self.threads, heads=heads
        )

    def lets_load(self, host: str) -> bool:
        """Whether visitors of a page at `host` may load other models."""
        if self.load_models is not None:
            return self.load_models
        return self._own_machine(host)

    def lets_add_servers(self, host: str) -> bool:
        """Whether visitors of a page at `host` may add a server's address: only on their own machine, whatever else the
        operator allows."""
        return self.load_models is not False and self._own_machine(host)

    def _own_machine(self, host: str) -> bool:
        return host in LOOPBACK and not self.root_path and not os.environ.get("SPACE_ID")

    @property
    def limits(self) -> Limits:
        return Limits(**{field.name: getattr(self, field.name) for field in fields(Limits)})


@dataclass(frozen=True)
class Limits:
    """The most that one server gives its visitors."""

    max_tokens: int = Environment.model_fields["max_tokens"].default
    max_runs: int = Environment.model_fields["max_runs"].default
    max_runs_visitor: int = Environment.model_fields["max_runs_visitor"].default
    max_runs_address: int = Environment.model_fields["max_runs_address"].default
    max_text: int = Environment.model_fields["max_text"].default
    max_kept_mb: int = Environment.model_fields["max_kept_mb"].default
    max_upload_mb: int = Environment.model_fields["max_upload_mb"].default


ELSEWHERE = (  # read in other places: variable, default, meaning
    ("DRAFTSCOPE_ASSETS", "", "folder of models, traces and page files, instead of the shipped one"),
    ("DRAFTSCOPE_CACHE", "", "folder for measured costs and converted models; empty: the user's cache folder"),
    ("DRAFTSCOPE_CORPUS", "", "folder of training texts, for `draftscope train`"),
    ("DRAFTSCOPE_DEBUG", "", "1: a command that fails prints a traceback"),
    ("HF_TOKEN", "", "token for `draftscope space push`"),
    ("LLAMA_SERVER", "", "llama.cpp's `llama-server`, for `draftscope bench`; empty: the one on PATH"),
    ("SPACE_ID", "", "set on a Space; copied links lead to it"),
    ("SPACES_ZERO_GPU", "", "set on a Space with ZeroGPU; then the engine runs in the page's process"),
)


def names() -> list[str]:
    """The variables that `Environment` reads."""
    return [str(field.alias) for field in Environment.model_fields.values()]


def table() -> str:
    """Every variable as a table in Markdown."""
    variables = [
        (str(field.alias), "" if field.default is None else str(field.default), str(field.description))
        for field in Environment.model_fields.values()
    ]
    rows = [(f"`{name}`", default, meaning) for name, default, meaning in (*variables, *ELSEWHERE)]
    return markdown.table(("variable", "default", "meaning"), rows)
