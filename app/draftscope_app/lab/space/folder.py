"""The folder of a Space: what `space.yaml` lists, and the README and requirements of app/space."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from draftscope.base.errors import DraftscopeError, quoted

PAID = "paid"
TORCH = "torch>=2.11,<2.14"  # as in app/space/requirements.txt
TORCH_LINE = re.compile(r"torch\b")
NOT_CODE = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")


class Target(BaseModel):
    """A kind of Space: what it costs, what it can do, and what its README says to the platform."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    costs: str
    can: str
    front: dict[str, Any]
    hardware: str | None = None  # None: it has none, because nothing runs there
    torch: str | None = None  # the requirement in place of the project's; with it the platform brings its own builds

    @property
    def sdk(self) -> str:
        return str(self.front["sdk"])


class Description(BaseModel):
    """`space.yaml`. Fields that are not declared here go to the platform as they are."""

    model_config = ConfigDict(frozen=True, extra="allow")

    targets: dict[str, Target]
    environment: dict[str, str] = {}  # of the server; what is set in the Space's variables takes precedence
    files: tuple[str, ...]  # and folders of the checkout

    def target(self, name: str | None, hardware: str | None = None) -> Target:
        """That target, or the first; on other `hardware` where it is given. Raises `DraftscopeError` for a name that is
        none, and hardware that the hub does not have or the target cannot use."""
        chosen = next(iter(self.targets)) if name is None else name
        if chosen not in self.targets:
            raise DraftscopeError(f"'{quoted(chosen)}' is no target; choose {', '.join(self.targets)}.")
        target = self.targets[chosen]
        if hardware is None:
            return target
        if chosen != PAID:
            raise DraftscopeError(f"--hardware goes with --on {PAID}; '{chosen}' has its own.")
        from huggingface_hub import SpaceHardware

        if hardware not in (known := [entry.value for entry in SpaceHardware]):
            raise DraftscopeError(f"'{quoted(hardware)}' is no hardware of the hub; choose {', '.join(known)}.")
        torch = None if hardware.startswith("cpu") else TORCH
        return target.model_copy(update={"hardware": hardware, "torch": torch})


def read(checkout: Path) -> Description:
    """The description of a checkout. Raises `DraftscopeError` for a file that cannot be read or is not valid."""
    path = checkout / "space.yaml"
    try:
        return Description.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise DraftscopeError(
            f"'{path}' cannot be read ({error.strerror}); name a checkout of Draftscope with --checkout."
        ) from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise DraftscopeError(f"'{path}': {where}: {first['msg']}.") from None
    except yaml.YAMLError as error:
        raise DraftscopeError(f"'{path}' is not YAML ({' '.join(str(error).split())[:120]}); correct it.") from None


def build(folder: Path, checkout: Path, name: str | None = None, hardware: str | None = None) -> Target:
    """Builds the Space of a checkout for a target, the first where none is named, in a new or empty folder.

    Raises `DraftscopeError` for a folder that is not empty, a file that the checkout lacks, and what `target` refuses.
    """
    description = read(checkout)
    target = description.target(name, hardware)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise DraftscopeError(f"'{folder}' is not empty; name a new folder.")
        if target.hardware is None:
            _build_site(folder)
        else:
            _copy_code(folder, checkout, description, target)
        text = (checkout / f"app/space/{'README' if target.hardware else 'static'}.md").read_text(encoding="utf-8")
        (folder / "README.md").write_text(f"---\n{_front(description, target)}---\n\n{text}", encoding="utf-8")
    except OSError as error:
        raise DraftscopeError(
            f"'{folder}' cannot be built ({error}); restore that file, or name another folder."
        ) from None
    return target


def _front(description: Description, target: Target) -> str:
    """What the platform reads of the README."""
    values = description.model_dump(exclude={"environment", "files", "targets"}) | target.front
    if target.hardware:
        values["suggested_hardware"] = target.hardware
    return yaml.safe_dump(values, allow_unicode=True, sort_keys=False, width=1000)


def _build_site(folder: Path) -> None:
    from draftscope_app.lab.site import shelf, site_files
    from draftscope_app.lab.site.texts import FOLDER

    site_files.build(folder, shelf.read(FOLDER))


def not_recorded() -> str:
    """What a static Space lacks, and what records it; empty where it lacks nothing."""
    from draftscope_app.lab.site.shelf import missing_words
    from draftscope_app.lab.site.texts import FOLDER

    return missing_words(FOLDER)


def _copy_code(folder: Path, checkout: Path, description: Description, target: Target) -> None:
    requirements = (checkout / "app/space/requirements.txt").read_text(encoding="utf-8")
    (folder / "requirements.txt").write_text(_for(target, requirements), encoding="utf-8")
    for name in description.files:
        _copy(checkout / name, folder / name)


def _for(target: Target, requirements: str) -> str:
    """The requirements, with the target's torch: not the index of builds for CPUs."""
    if target.torch is None:
        return requirements
    lines = [line for line in requirements.splitlines() if not line.startswith("--extra-index-url")]
    return "".join(f"{target.torch if TORCH_LINE.match(line) else line}\n" for line in lines)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=NOT_CODE)
    else:
        shutil.copyfile(source, target)
