"""The folder of a Space: front matter, requirements, packages, the code, and the models and assets that it needs."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import SpaceCardData

from draftscope.base.errors import DraftscopeError
from draftscope.models.loading.known import known
from draftscope_app.space import requirements
from draftscope_app.space.description import KINDS, Description, read

MOST_MB = 150
NOT_CODE = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")
TEXT = """
# {title}

{about}.

One engine runs plain and speculative decoding through the same loop, and everything on the page is drawn from the
events that it recorded. Runs are decoded one after the other, so that they do not disturb each other's timing; while
you wait, you can play the recorded run. This Space is made for {hardware}.

From a program, `decode` takes a prompt and every setting, and returns what `draftscope decode --json` prints:

```python
from gradio_client import Client

print(Client("OWNER/NAME").predict("Once upon a time", gamma=4, temperature=0.8, api_name="/decode"))
```

It is also an MCP (Model Context Protocol) tool, at `/gradio_api/mcp/`. The code's licence is Apache-2.0; each model's
card names its own terms.
"""


@dataclass(frozen=True)
class Built:
    """A folder that was built, and how much is in it."""

    folder: Path
    description: Description
    files: int
    size: int  # bytes


def build(folder: Path, checkout: Path, hardware: str | None = None) -> Built:
    """Builds the Space of a checkout's `space.yaml` in a new or empty folder.

    Raises `DraftscopeError` for a folder that is not empty, a missing asset, a version of torch that the hardware does
    not have, or a Space that is too large.
    """
    description = read(checkout / "space.yaml", hardware)
    sources = [_source(checkout, name) for name in (*description.code, *description.assets)]
    texts = {
        "README.md": _readme(description, checkout),
        "requirements.txt": requirements.render(description, checkout),
        "packages.txt": "".join(f"{name}\n" for name in description.packages),
    }
    _make_empty(folder)
    for source in sources:
        _copy(source, folder / source.relative_to(checkout))
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    files = [path for path in folder.rglob("*") if path.is_file()]
    built = Built(folder, description, len(files), sum(path.stat().st_size for path in files))
    if built.size > MOST_MB * 10**6:
        raise DraftscopeError(
            f"'{folder}' takes {built.size / 1e6:.0f} MB, and a Space should stay under {MOST_MB}; "
            "list fewer assets in space.yaml."
        )
    return built


def _source(checkout: Path, name: str) -> Path:
    path = checkout / name
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        raise DraftscopeError(f"space.yaml lists '{name}', and '{checkout}' does not have it; restore it.")
    return path


def _make_empty(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise DraftscopeError(f"'{folder}' is not empty; name a new folder.")
    except OSError as error:
        raise DraftscopeError(f"'{folder}' cannot be made ({error.strerror}); name another folder.") from None


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=NOT_CODE, dirs_exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def _from_hub(name: str) -> str:
    """A known model's repository, with the files that loading needs; other names are hub ids already."""
    model = known(name)
    return f"{model.repository} {','.join(model.files)}" if model is not None else name


def _readme(description: Description, checkout: Path) -> str:
    """Front matter, which is all that the platform reads, and a text for people."""
    tested = requirements.tested_versions(checkout)
    card = SpaceCardData(
        title=description.title, emoji=description.emoji, colorFrom=description.colorFrom, colorTo=description.colorTo,
        sdk=description.sdk, sdk_version=requirements.tested_version("gradio", tested),
        python_version=description.python_version, app_file=description.app_file,
        short_description=description.short_description, license=description.license,
        suggested_hardware=description.hardware, tags=["speculative-decoding", "mcp-server"],
        preload_from_hub=[_from_hub(name) for name in description.preload] or None,
    )  # fmt: skip
    text = TEXT.format(
        title=description.title, about=description.short_description.rstrip("."), hardware=KINDS[description.kind]
    )
    return f"---\n{card.to_yaml()}\n---\n{text}"
