"""`space.yaml`, read and checked: the one description of the Space."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

import yaml
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from draftscope.base.errors import DraftscopeError
from draftscope_app.engine.config import names

KINDS = {"cpu": "a CPU", "zero": "ZeroGPU", "gpu": "a GPU of its own"}
ZERO_TORCH = ("2.8.0", "2.9.1", "2.10.0", "2.11.0")  # versions on ZeroGPU
NEWER_THAN_ZERO = "2.12.0"


def _inside(path: str) -> str:
    """A path that stays inside the Space's folder."""
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise ValueError("name a path inside the checkout")
    return path


def _range(text: str) -> str:
    try:
        return str(SpecifierSet(text)) and text
    except InvalidSpecifier:
        raise ValueError("write a range of versions, such as >=2.11,<2.14") from None


def _variable(name: str) -> str:
    if name not in names():
        raise ValueError(f"the server reads no such variable; it reads {', '.join(names())}")
    return name


Inside = Annotated[str, AfterValidator(_inside)]
Range = Annotated[str, AfterValidator(_range)]
Kind = Literal["cpu", "zero", "gpu"]


class Description(BaseModel):
    """The contents of the file. Frozen; unknown names are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    emoji: str
    colorFrom: str  # noqa: N815 - the platform's own name
    colorTo: str  # noqa: N815
    short_description: str = Field(max_length=60)  # the platform's own limit
    license: str
    sdk: Literal["gradio"]
    python_version: str
    app_file: Inside
    hardware: str
    torch: dict[Kind, Range]  # the versions for each kind of hardware
    torch_index: dict[Kind, str] = {}  # the package index for that kind of hardware
    pinned: tuple[str, ...] = ()  # requirements pinned to the version that this project was tested with
    preload: tuple[str, ...] = ()  # hub ids or known names of models that the platform downloads while it builds
    packages: tuple[str, ...] = ()  # Debian packages
    environment: dict[Annotated[str, AfterValidator(_variable)], str] = {}  # unless set among the Space's variables
    code: tuple[Inside, ...]
    assets: tuple[Inside, ...]

    @property
    def kind(self) -> Kind:
        """'cpu-basic' -> 'cpu'; 'zero-a10g' -> 'zero'; every other name is a GPU's."""
        family = self.hardware.partition("-")[0]
        return "cpu" if family == "cpu" else "zero" if family == "zero" else "gpu"


def read(path: Path, hardware: str | None = None) -> Description:
    """The description in a file; `hardware` replaces the one in it.

    Raises `DraftscopeError` for a file that cannot be read or is not valid.
    """
    try:
        given = yaml.safe_load(path.read_text(encoding="utf-8"))
        found = Description.model_validate(given | ({"hardware": hardware} if hardware else {}))
    except OSError as error:
        raise DraftscopeError(
            f"'{path}' cannot be read ({error.strerror}); name a checkout of Draftscope with --checkout."
        ) from None
    except (yaml.YAMLError, TypeError) as error:
        raise DraftscopeError(
            f"'{path}' is not a valid description ({' '.join(str(error).split())[:120]}); correct it."
        ) from None
    except ValidationError as error:
        raise DraftscopeError(_sentence(path, error)) from None
    _refuse_torch(path, found)
    return found


def _refuse_torch(path: Path, found: Description) -> None:
    """Refuses versions of torch that the hardware does not have, before anything is built."""
    kind = found.kind
    if kind not in found.torch:
        raise DraftscopeError(f"'{path}': there are no versions of torch for '{kind}' ({KINDS[kind]}); add them.")
    allowed = SpecifierSet(found.torch[kind])
    if kind == "zero" and (NEWER_THAN_ZERO in allowed or not any(version in allowed for version in ZERO_TORCH)):
        raise DraftscopeError(
            f"'{path}': ZeroGPU has torch {ZERO_TORCH[0]} to {ZERO_TORCH[-1]}, not {found.torch[kind]}; "
            "write ==2.11.* for 'zero'."
        )


def _sentence(path: Path, error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "[key]") or "the file"
    given = "" if first["type"] == "missing" else f" = {repr(first['input'])[:80]}"
    return f"'{path}': {where}{given}: {first['msg'].removeprefix('Value error, ')}."
