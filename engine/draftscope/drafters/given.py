"""What may be given as a drafter: a name, a `DrafterInfo`, a class of drafters, or 'file.py:NAME'."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from draftscope.base.errors import DraftscopeError, quoted
from draftscope.drafters.drafter import Drafter, DrafterInfo
from draftscope.drafters.guard import guarded_info
from draftscope.drafters.plugins import Plugin

AnyDrafter = str | DrafterInfo | type[Drafter]


def plugin_of(made: object, source: str) -> Plugin:
    """A drafter from elsewhere. Raises `DraftscopeError` for what is no drafter, or lacks a method."""
    if isinstance(made, DrafterInfo):
        return Plugin(made.name, source, made)
    if isinstance(made, type) and issubclass(made, Drafter):
        if inspect.isabstract(made):
            missing = ", ".join(sorted(made.__abstractmethods__))
            raise DraftscopeError(f"The drafter '{made.__name__}' of {source} lacks {missing}; write what is missing.")
        return Plugin(_name(made), source, made)
    raise DraftscopeError(
        f"drafter = {quoted(made)}: give a name, a DrafterInfo, a subclass of draftscope.Drafter, or 'file.py:NAME'."
    )


def info_of(plugin: Plugin) -> DrafterInfo:
    """The entry of a drafter from elsewhere. A class is named after itself, 'MyDrafter' as 'my-drafter', and reads the
    options that its attribute `options` names."""
    made = plugin.made
    if isinstance(made, DrafterInfo):
        return guarded_info(replace(made, source=plugin.source))
    title = (inspect.getdoc(made) or plugin.name).partition("\n")[0]
    return guarded_info(DrafterInfo(plugin.name, title, "", made, made.options, source=plugin.source))


def from_file(file: Path, name: str) -> Any:
    """What a Python file defines under a name; the file is run. Raises `DraftscopeError` if that fails."""
    spec = spec_from_file_location(f"draftscope_given_{file.stem}", file)
    if not file.is_file() or spec is None or spec.loader is None:
        raise DraftscopeError(f"The file '{file}' of the drafter '{name}' is not there; check the path.")
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise DraftscopeError(
            f"'{file}' does not run ({type(error).__name__}: {quoted(str(error))}); mend it."
        ) from error
    if not hasattr(module, name):
        raise DraftscopeError(f"'{file}' defines no '{name}'; write FILE.py:NAME with a class or a DrafterInfo of it.")
    return getattr(module, name)


def _name(made: type[Drafter]) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", made.__name__).lower()
