"""What a server reads from its environment, and the table of all variables, which app/DEPLOY.md shows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Self, TypeVar

from pydantic import Field, PrivateAttr

from draftscope.base import markdown
from draftscope.base.load_settings import LoadSettings
from draftscope_app.doors.door import Folder, doors, lab
from draftscope_app.engine.beats import SILENT_S
from draftscope_app.engine.log import Kind
from draftscope_app.engine.variables import Variables

LOOPBACK = ("127.0.0.1", "localhost", "::1")
Kept = TypeVar("Kept", bound=Variables)


class Environment(Variables):
    """A server's settings, and beside them those of the doors."""

    _of_doors: tuple[Variables, ...] = PrivateAttr(())

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
    log: Kind = Field(
        "json", alias="DRAFTSCOPE_LOG", description="json: one line on stderr for each start, run and end; off: none"
    )

    @classmethod
    def read(cls, variables: Mapping[str, str] | None = None) -> Self:
        environment = super().read(variables)
        environment._of_doors = tuple(kind.read(variables) for kind in _kinds(_of_doors()))
        return environment

    def of(self, kind: type[Kept]) -> Kept:
        """What a door has read."""
        return next(read for read in self._of_doors if isinstance(read, kind))

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
        return self.own_machine(host)

    def own_machine(self, host: str) -> bool:
        """Whether all visitors of a page at `host` are at the operator's own machine."""
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
    ("DRAFTSCOPE_DEBUG", "", "1: a command that fails prints a traceback"),
    ("LLAMA_SERVER", "", "llama.cpp's `llama-server`, for `draftscope bench`; empty: the one on PATH"),
    ("SPACE_ID", "", "set on a Space; copied links lead to it"),
)


def _of_doors() -> Iterator[Folder]:
    for door in doors():
        yield from (door, *door.tasks)


def _kinds(folders: Iterable[Folder]) -> Iterator[type[Variables]]:
    """What they read; most read nothing."""
    for folder in folders:
        if part := folder.part("variables"):
            yield part.Variables


def rows() -> list[tuple[str, str, str]]:
    """Every variable: its name, its default and what it means."""
    kinds: list[type[Variables]] = [Environment, *_kinds(_of_doors()), *_kinds(lab())]
    return [*(row for kind in kinds for row in kind.rows()), *ELSEWHERE]


def table() -> str:
    """Every variable as a table in Markdown."""
    return markdown.table(("variable", "default", "meaning"), [(f"`{name}`", *more) for name, *more in rows()])
