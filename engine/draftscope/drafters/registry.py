"""All drafters and options by name: those that are here, those that installed packages add under the entry-point group
`draftscope.drafters`, and those that a program or a file gives.

One from elsewhere that cannot be used is left out, with a warning that names it; it never ends a command that does not
ask for it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any
from warnings import warn

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from draftscope.base.common_settings import GeneralSettings, sentence, unknown
from draftscope.base.errors import DraftscopeError, PluginWarning, UnreadWarning, quoted
from draftscope.drafters.options import DECLARING, DrafterOptions
from draftscope.models import head_kinds
from draftscope.models.head_kinds import HeadKind

if TYPE_CHECKING:
    from draftscope.drafters import AnyDrafter, DrafterInfo

NAME = re.compile(r"\w[\w.-]*")  # no commas and colons: a command takes several drafters, and 'drafter:model'
OURS = "draftscope"  # the package of the drafters that are here

# Names, options and settings are needed without torch, which takes seconds to import: for `--help`, for the page, and
# to refuse a wrong value before a model is loaded. So a drafter that is here is named as an entry point names one from
# elsewhere, and what needs torch is imported by `_here` when somebody asks for it.
BUILT_IN = {
    "plain": "plain:INFO",
    "draft": "model.draft_model:CHAIN",
    "sampled-tree": "model.draft_model:SAMPLED_TREE",
    "topk-tree": "model.draft_model:TOP_K_TREE",
    "sequoia": "policy.sequoia:DRAFT",
    "eagle3": "heads.recurrent:EAGLE3",
    "eagle3-sampled-tree": "heads.recurrent:EAGLE3_SAMPLED_TREE",
    "eagle3-tree": "heads.dynamic:EAGLE3_TREE",
    "eagle3-sequoia": "policy.sequoia:EAGLE3",
    "hybrid": "heads.hybrid:INFO",
    "eagle": "heads.recurrent:EAGLE",
    "eagle-tree": "heads.dynamic:EAGLE_TREE",
    "medusa": "heads.positions:MEDUSA_CHAIN",
    "medusa-tree": "heads.positions:MEDUSA",
    "mtp": "heads.recurrent:MTP",
    "mtp-tree": "heads.dynamic:MTP_TREE",
    "block": "heads.positions:BLOCK",
    "block-tree": "heads.positions:BLOCK_TREE",
    "dspark": "heads.positions:DSPARK",
    "early-exit": "model.early_exit:INFO",
    "cascade": "model.cascade:INFO",
    "slem": "text.slem:INFO",
    "tli": "text.tli:INFO",
    "ssd": "model.ssd:INFO",
    "ngram": "lookup.ngram:INFO",
    "suffix": "lookup.suffix:CHAIN",
    "suffix-tree": "lookup.suffix:TREE",
    "lookahead": "lookup.lookahead:INFO",
    "bandit": "policy.bandit:INFO",
    "typed": "typed:INFO",
    "oracle": "oracle:INFO",
}


def _here(name: str) -> Any:
    """What a module of this package defines, 'module:NAME'."""
    return resolve_name(f"draftscope.drafters.{name}")


def known() -> dict[str, DrafterInfo]:
    """Every drafter by name, usable plug-ins last. `problems` says why the other plug-ins cannot be used."""
    infos: dict[str, DrafterInfo] = {name: _here(place) for name, place in BUILT_IN.items()}
    return infos | {plugin.name: plugin.info for plugin in survey().plugins}


def problems() -> Mapping[str, str]:
    """Why drafters from elsewhere were left out, a sentence each, by name."""
    return survey().problems


def find(name: str) -> DrafterInfo:
    """The drafter of that name, or one sentence: why it was left out, or the nearest names."""
    if name in BUILT_IN:
        info: DrafterInfo = _here(BUILT_IN[name])
        return info
    for plugin in survey().plugins:
        if plugin.name == name:
            return plugin.info
    if name in problems():
        raise DraftscopeError(problems()[name])
    names = [*BUILT_IN, *(plugin.name for plugin in survey().plugins)]
    near = get_close_matches(name, names, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(names)}."
    raise DraftscopeError(f"There is no drafter '{name}'; {hint}")


def adopt(drafter: AnyDrafter) -> str:
    """The name of a drafter that is given as a name, a `DrafterInfo`, a class of drafters, or 'file.py:NAME'.

    From then on this process knows it by that name; one that is given again replaces the earlier one. Raises
    `DraftscopeError` for anything else, for the name of a built-in drafter, and for options that conflict with others.
    """
    made: object = drafter
    if isinstance(drafter, str):
        file, _, name = drafter.rpartition(":")
        if drafter.endswith(".py"):
            raise DraftscopeError(f"drafter = '{drafter}': name the drafter in that file too, as '{drafter}:NAME'.")
        if not file.endswith(".py"):
            return drafter
        made = _from_file(Path(file), name)
    plugin = _plugin_of(made, "this program" if made is drafter else Path(file).name)
    if plugin.name in BUILT_IN and find(plugin.name) is made:
        return plugin.name
    plugin.refuse_taken()
    others = tuple(other for other in _registered.values() if other.name != plugin.name)
    _options_of(plugin, survey(others).options)
    plugin.give_head()
    _registered[plugin.name] = plugin
    return plugin.name


def warn_unread(drafters: Sequence[str], given: Iterable[str]) -> None:
    """Warns whoever called the caller of the options that none of these drafters reads."""
    if names := unread(drafters, given):
        who = f"'{drafters[0]}' does not read" if len(drafters) == 1 else f"None of {', '.join(drafters)} reads"
        warn(f"{who} {', '.join(names)}.", UnreadWarning, stacklevel=3)


def unread(drafters: Iterable[str], given: Iterable[str]) -> list[str]:
    """The options among the `given` settings that none of these drafters reads. An arm reads whatever its run has."""
    used = {name for drafter in drafters for name in find(drafter).uses}
    return [] if "arms" in used else [name for name in given if name in known_options() and name not in used]


@dataclass(frozen=True)
class Option:
    """One option: its field, and the class and package that declare it."""

    name: str
    field: FieldInfo
    declared_in: type[DrafterOptions]
    package: str


def known_options() -> Mapping[str, Option]:
    """Every option by name, in the order of declaration; those of drafters from other packages last."""
    return survey().options


def validated(values: Mapping[str, Any]) -> dict[str, Any]:
    """Option values by name, each validated where it is declared; `DraftscopeError` for an unknown or wrong one."""
    known = known_options()
    names = [*GeneralSettings.model_fields, *known]
    by_class: dict[type[DrafterOptions], dict[str, Any]] = {}
    for name, value in values.items():
        if name not in known:
            raise DraftscopeError(unknown(name, names))
        by_class.setdefault(known[name].declared_in, {})[name] = value
    try:
        made = [(declaring(**given), given) for declaring, given in by_class.items()]
    except ValidationError as error:
        raise DraftscopeError(sentence(error, names)) from None
    return {name: getattr(options, name) for options, given in made for name in given}


def known_heads() -> Mapping[str, HeadKind]:
    """Every kind of head by name; those of drafters from other packages last."""
    survey()
    return head_kinds.kinds()


def trained_kinds() -> tuple[str, ...]:
    """What `train-drafter --kind` takes: the heads that are trained for any target, and the small model."""
    return (*(kind.name for kind in known_heads().values() if kind.method), head_kinds.SMALL_MODEL)


def chain_of(drafter: str) -> str:
    """The drafter of chains with the same draft as a tree: 'eagle3-sampled-tree' -> 'eagle3', 'topk-tree' -> 'draft'.

    It goes by name, because a reader of results loads no model; a tree from elsewhere names its head.
    """
    made = next((plugin.made for plugin in survey().plugins if plugin.name == drafter), None)
    if made is not None:
        return made.needs_head if getattr(made, "grows_trees", False) and made.head else drafter
    return re.sub("-?(sampled-|topk-)?tree$|-?sequoia$", "", drafter) or "draft"


@dataclass(frozen=True)
class Plugin:
    """A drafter from elsewhere: its name, the package or file that it is from, and what was found there: a
    `DrafterInfo` or a class of drafters. Raises `DraftscopeError` for a field that would end the commands of others."""

    name: str
    source: str
    made: Any

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            self._refuse("name", self.name, "give it one of letters, digits and '-'")
        options = getattr(self.made, "options", None)
        if not (isinstance(options, type) and issubclass(options, BaseModel)):
            self._refuse("options", options, "name a class, such as draftscope.GammaOptions")
        if isinstance(self.made, type):
            return
        for field in ("title", "paper", "idle"):
            if not isinstance(text := getattr(self.made, field), str):
                self._refuse(field, text, "write a text")
        if not isinstance(head := self.made.head, HeadKind | None):
            self._refuse("head", head, "give a HeadKind, or leave it out")

    def _refuse(self, field: str, value: object, remedy: str) -> None:
        raise DraftscopeError(
            f"The drafter {quoted(repr(self.name))} of {self.source} has {field} = {quoted(repr(value))}; {remedy}."
        )

    @property
    def info(self) -> DrafterInfo:
        """Its entry. A class is named after itself, 'MyDrafter' as 'my-drafter', and reads the options that its
        attribute `options` names."""
        made = self.made
        if not isinstance(made, _here("drafter:DrafterInfo")):
            title = (inspect.getdoc(made) or self.name).partition("\n")[0]
            made = _here("drafter:DrafterInfo")(self.name, title, "", made, made.options)
        info: DrafterInfo = _here("guard:guarded_info")(replace(made, source=self.source))
        return info

    def refuse_taken(self) -> None:
        """Raises `DraftscopeError` for the name of a built-in drafter."""
        if self.name in BUILT_IN:
            raise DraftscopeError(
                f"The drafter '{self.name}' of {self.source} has the name of a built-in one; give it another name."
            )

    def give_head(self) -> None:
        """Adds the kind of head that it needs, if that is a new one. Raises `DraftscopeError` for a taken name."""
        if not isinstance(self.made, type) and self.made.head is not None:
            head_kinds.register_kind(self.made.head)


_registered: dict[str, Plugin] = {}  # those that this process was given, by name


@dataclass(frozen=True)
class Survey:
    """What is known: every option, the drafters from elsewhere that can be used, and why the others cannot, by name."""

    options: Mapping[str, Option]
    plugins: tuple[Plugin, ...]
    problems: Mapping[str, str]


def survey(given: tuple[Plugin, ...] | None = None) -> Survey:
    """Every option and every usable drafter from elsewhere, by default with all that this process was given. Warns once
    of each that is left out."""
    return _survey(installed(), tuple(_registered.values()) if given is None else given)


@lru_cache(maxsize=1)
def installed() -> tuple[EntryPoint, ...]:
    """The entry points; looked up once, because that reads every package's metadata."""
    return tuple(entry_points(group="draftscope.drafters"))


@lru_cache(maxsize=8)
def _survey(entries: tuple[EntryPoint, ...], given: tuple[Plugin, ...]) -> Survey:
    known: dict[str, Option] = {}
    for declaring in DECLARING:
        for name in declaring.__annotations__:  # without those that it inherits
            known[name] = Option(name, declaring.model_fields[name], declaring, OURS)
    used: list[Plugin] = []
    problems: dict[str, str] = {}
    every: list[EntryPoint | Plugin] = [*entries, *given]
    for source in every:
        try:
            plugin = source if isinstance(source, Plugin) else _loaded(source)
            plugin.refuse_taken()
            known |= _options_of(plugin, known)
            plugin.give_head()
            used.append(plugin)
        except DraftscopeError as error:
            problems[source.name] = str(error)
            warn(f"{error} It was left out.", PluginWarning, stacklevel=4)
    return Survey(known, tuple(used), problems)


def _loaded(entry: EntryPoint) -> Plugin:
    """The drafter that an entry point names. `DraftscopeError` where its package does not load."""
    try:
        made = entry.load()
        return Plugin(getattr(made, "name", entry.name), entry.value.partition(":")[0].partition(".")[0], made)
    except (Exception, SystemExit) as error:
        raise DraftscopeError(
            f"The drafter '{entry.name}' from {entry.value} does not load ({error}); mend or uninstall it."
        ) from error


def _from_file(file: Path, name: str) -> Any:
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


def _plugin_of(made: object, source: str) -> Plugin:
    """A drafter that was given. Raises `DraftscopeError` for what is no drafter, or lacks a method."""
    if isinstance(made, _here("drafter:DrafterInfo")):
        return Plugin(made.name, source, made)
    if isinstance(made, type) and issubclass(made, _here("drafter:Drafter")):
        if missing := ", ".join(sorted(getattr(made, "__abstractmethods__", ()))):
            raise DraftscopeError(f"The drafter '{made.__name__}' of {source} lacks {missing}; write what is missing.")
        return Plugin(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", made.__name__).lower(), source, made)
    raise DraftscopeError(
        f"drafter = {quoted(made)}: give a name, a DrafterInfo, a subclass of draftscope.Drafter, or 'file.py:NAME'."
    )


def _options_of(plugin: Plugin, known: Mapping[str, Option]) -> dict[str, Option]:
    """The options that only this drafter declares. Raises `DraftscopeError` for one that cannot stand beside others."""
    fields = plugin.made.options.model_fields
    made = {name: Option(name, field, plugin.made.options, plugin.source) for name, field in fields.items()}
    for name, option in made.items():
        _refuse_conflict(option, known.get(name))
    return {name: option for name, option in made.items() if name not in known}


def _refuse_conflict(new: Option, other: Option | None) -> None:
    """`DraftscopeError` where another package's option has a name that is taken, or no default."""
    if new.name in GeneralSettings.model_fields:
        raise DraftscopeError(
            f"The package '{new.package}' declares an option '{new.name}', which is a setting of every run; rename it."
        )
    if new.field.default is PydanticUndefined:
        raise DraftscopeError(f"The option '{new.name}' of the package '{new.package}' needs a default; give it one.")
    if other is not None and other.field.annotation != new.field.annotation:
        raise DraftscopeError(
            f"The packages '{other.package}' and '{new.package}' declare the option '{new.name}' with different types; "
            "rename one of them, or uninstall one of the packages."
        )
