"""The folder of a Space: what `space.yaml` lists, and the README and requirements of app/space."""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from draftscope.base.errors import DraftscopeError

NOT_CODE = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")


class Description(BaseModel):
    """`space.yaml`. Fields that are not declared here go to the platform as they are."""

    model_config = ConfigDict(frozen=True, extra="allow")

    sdk: str
    suggested_hardware: str
    environment: dict[str, str] = {}  # of the server; what is set in the Space's variables takes precedence
    files: tuple[str, ...]  # and folders of the checkout


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


def build(folder: Path, checkout: Path) -> Description:
    """Builds the Space of a checkout in a new or empty folder.

    Raises `DraftscopeError` for a folder that is not empty, or a file that the checkout lacks.
    """
    description = read(checkout)
    front = yaml.safe_dump(
        description.model_dump(exclude={"environment", "files"}), allow_unicode=True, sort_keys=False, width=1000
    )
    try:
        text = (checkout / "app/space/README.md").read_text(encoding="utf-8")
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise DraftscopeError(f"'{folder}' is not empty; name a new folder.")
        (folder / "README.md").write_text(f"---\n{front}---\n\n{text}", encoding="utf-8")
        shutil.copyfile(checkout / "app/space/requirements.txt", folder / "requirements.txt")
        for name in description.files:
            _copy(checkout / name, folder / name)
    except OSError as error:
        raise DraftscopeError(
            f"'{folder}' cannot be built ({error}); restore that file, or name another folder."
        ) from None
    return description


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=NOT_CODE)
    else:
        shutil.copyfile(source, target)
