"""ES modules as one classic script: for a page that may fetch nothing, and needs no node to be made.

A strict subset of the language is read, line by line from the first column, as the formatter writes it:

    import { a, b as c } from "./other.js";
    import sheet from "./other.css" with { type: "css" };
    export function a() ...   export async function a() ...   export class A ...   export const a = ...

Each module becomes a function of its own, called once, after those that it imports. Anything else that begins with
`import` or `export`, a name that is not exported, and a circle are errors that name the file and its line.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from draftscope.base.errors import DraftscopeError

IMPORT = re.compile(r'^import \{([^{}]*)\} from "(\.[^"]*\.js)";$', re.MULTILINE)
STYLE = re.compile(r'^import (\w+) from "(\.[^"]*\.css)" with \{ type: "css" \};$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:(?:async )?function|class|const) (\w+))", re.MULTILINE)
OTHER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
NAME = re.compile(r"(\w+)(?: as (\w+))?")


@dataclass(frozen=True)
class _Module:
    name: str  # path below the root
    exports: tuple[str, ...]
    needs: tuple[tuple[str, str, int], ...]  # (module, name that it must export, line)
    body: str


def link(root: Path, *entries: str, mounts: Mapping[str, Path] | None = None) -> str:
    """One JavaScript expression: a table from each entry, a path below `root`, to what it exports. `mounts` are folders
    that stand elsewhere, by the paths below `root` under which modules import from them.

    Raises `DraftscopeError` for whatever the subset does not hold.
    """
    done: dict[str, _Module] = {}
    tree = _Tree(root, mounts or {})
    for entry in entries:
        _add(tree, entry, done, ())
    parts = "\n".join(map(_function, done.values()))
    table = ", ".join(f"{json.dumps(entry)}: modules[{json.dumps(entry)}]" for entry in entries)
    return f'(() => {{\n"use strict";\nconst modules = {{}};\n{parts}\nreturn {{ {table} }};\n}})()'


@dataclass(frozen=True)
class _Tree:
    """Where the file of a module is."""

    root: Path
    mounts: Mapping[str, Path]

    def __truediv__(self, name: str) -> Path:
        over = [mount for mount in self.mounts if name.startswith(f"{mount}/")]
        if not over:
            return self.root / name
        mount = max(over, key=len)
        return self.mounts[mount] / name.removeprefix(f"{mount}/")


def _add(root: _Tree, name: str, done: dict[str, _Module], path: tuple[str, ...]) -> None:
    """Puts a module behind all that it imports."""
    if name in path:
        circle = " imports ".join((*path[path.index(name) :], name))
        raise DraftscopeError(f"{circle}: a circle of imports; move what they share into a file below both.")
    if name in done:
        return
    module = _read(root, name)
    for needed, _, line in module.needs:
        if not (root / needed).is_file():
            raise DraftscopeError(f"{name}:{line} imports '{needed}', and there is no such file; correct the path.")
        _add(root, needed, done, (*path, name))
    for needed, wanted, line in module.needs:
        if wanted not in done[needed].exports:
            raise DraftscopeError(
                f"{name}:{line} imports '{wanted}', which {needed} does not export; correct the name."
            )
    done[name] = module


def _read(root: _Tree, name: str) -> _Module:
    text = (root / name).read_text(encoding="utf-8")
    folder = posixpath.dirname(name)
    needs: list[tuple[str, str, int]] = []

    def constants(match: re.Match[str]) -> str:
        other = posixpath.normpath(posixpath.join(folder, match[2]))
        line = _line(text, match)
        names = [NAME.fullmatch(part.strip()) for part in match[1].split(",") if part.strip()]
        if not names or not all(names):
            raise DraftscopeError(f"{name}:{line} imports something unnamed; write `{{ a, b as c }}`.")
        needs.extend((other, part[1], line) for part in names if part)
        # its line breaks stay, and so do later lines' numbers
        bindings = re.sub(r"(\w+) as (\w+)", r"\1: \2", match[1])
        return f"const {{{bindings}}} = modules[{json.dumps(other)}];"

    def sheet(match: re.Match[str]) -> str:
        file = root / posixpath.normpath(posixpath.join(folder, match[2]))
        if not file.is_file():
            raise DraftscopeError(f"{name}:{_line(text, match)} imports '{match[2]}', and there is no such file.")
        css = json.dumps(file.read_text(encoding="utf-8"), ensure_ascii=False).replace("</", "<\\/")
        return f"const {match[1]} = new CSSStyleSheet(); {match[1]}.replaceSync({css});"

    body = STYLE.sub(sheet, IMPORT.sub(constants, text))
    exports = tuple(EXPORT.findall(body))
    body = EXPORT.sub("", body)
    other = OTHER.search(body)
    if other is not None:
        raise DraftscopeError(f"{name}:{_line(body, other)}: '{other[0]}' is none of the forms that can be linked.")
    return _Module(name, exports, tuple(needs), body)


def _function(module: _Module) -> str:
    names = ", ".join(module.exports)
    return f"modules[{json.dumps(module.name)}] = (() => {{\n{module.body}\nreturn {{ {names} }};\n}})();"


def _line(text: str, match: re.Match[str]) -> int:
    return text.count("\n", 0, match.start()) + 1
