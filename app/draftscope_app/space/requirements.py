"""What a Space installs: this project's requirements, with a version of torch that the chosen hardware has."""

from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from draftscope.base.errors import DraftscopeError
from draftscope_app.space.description import KINDS, Description

SPACES = "spaces>=0.40"  # ZeroGPU's decorator; Gradio asks for it on every Space
EXTRAS = {"gradio": "mcp"}  # so that `decode` is also an MCP tool


def render(description: Description, checkout: Path) -> str:
    """requirements.txt: the dependencies in pyproject.toml and of its extra `app`; torch by hardware, some pinned."""
    tested = tested_versions(checkout)
    lines = [f"# {KINDS[description.kind]}; built from space.yaml and pyproject.toml"]
    if index := description.torch_index.get(description.kind):
        lines.append(f"--extra-index-url {index}")
    lines += [_line(requirement, description, tested) for requirement in _required(checkout)]
    return "\n".join([*lines, SPACES]) + "\n"


def tested_versions(checkout: Path) -> dict[str, str]:
    """Package -> the version in the tested set."""
    path = checkout / "tests" / "constraints.txt"
    try:
        pins = [line.split("==") for line in path.read_text(encoding="utf-8").split() if "==" in line]
    except OSError as error:
        raise DraftscopeError(f"'{path}' cannot be read ({error.strerror}); name a checkout with --checkout.") from None
    return {canonicalize_name(name): version for name, version in pins}


def tested_version(name: str, tested: dict[str, str]) -> str:
    if name not in tested:
        raise DraftscopeError(
            f"space.yaml pins '{name}', but tests/constraints.txt has no version of it; leave it out."
        )
    return tested[name]


def _required(checkout: Path) -> list[Requirement]:
    path = checkout / "pyproject.toml"
    try:
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    except OSError as error:
        raise DraftscopeError(f"'{path}' cannot be read ({error.strerror}); name a checkout with --checkout.") from None
    return [Requirement(text) for text in (*project["dependencies"], *project["optional-dependencies"]["app"])]


def _line(requirement: Requirement, description: Description, tested: dict[str, str]) -> str:
    name = canonicalize_name(requirement.name)
    versions = str(requirement.specifier)
    if name == "torch":
        versions = description.torch[description.kind]
    elif name in description.pinned:
        versions = f"=={tested_version(name, tested)}"
    extra = f"[{EXTRAS[name]}]" if name in EXTRAS else ""
    return f"{name}{extra}{versions}"
