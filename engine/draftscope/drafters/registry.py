"""All drafters by name: those that are here, and those that other packages add (`plugins`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from warnings import warn

from draftscope.base.errors import DraftscopeError, PluginWarning, UnreadWarning
from draftscope.drafters import oracle, plain, typed
from draftscope.drafters.drafter import DrafterInfo
from draftscope.drafters.given import AnyDrafter, from_file, info_of, plugin_of
from draftscope.drafters.heads import dynamic, hybrid, positions, recurrent
from draftscope.drafters.lookup import lookahead, ngram, suffix
from draftscope.drafters.model import cascade, draft_model, early_exit, ssd
from draftscope.drafters.options import known_options, plugin_options, survey
from draftscope.drafters.plugins import Plugin, register_plugin, registered_plugins
from draftscope.drafters.policy import bandit, sequoia
from draftscope.drafters.text import slem, tli


def known() -> dict[str, DrafterInfo]:
    """Every drafter by name, usable plug-ins last. `problems` says why the other plug-ins cannot be used."""
    infos = {info.name: info for info in OWN}
    plugins = survey().plugins
    infos |= {plugin.name: info_of(plugin) for plugin in plugins if plugin.name not in _taken(plugins)}
    return infos


def problems() -> dict[str, str]:
    """Why drafters from elsewhere were left out, a sentence each, by name."""
    return {**survey().problems, **_taken(survey().plugins)}


def find(name: str) -> DrafterInfo:
    """The drafter of that name, or one sentence: why it was left out, or the nearest names."""
    drafters = known()
    if name in drafters:
        return drafters[name]
    if name in problems():
        raise DraftscopeError(problems()[name])
    near = get_close_matches(name, drafters, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(drafters)}."
    raise DraftscopeError(f"There is no drafter '{name}'; {hint}")


def warn_unread(drafters: Sequence[str], given: Iterable[str]) -> None:
    """Warns whoever called the caller of the options that none of these drafters reads."""
    if names := unread(drafters, given):
        who = f"'{drafters[0]}' does not read" if len(drafters) == 1 else f"None of {', '.join(drafters)} reads"
        warn(f"{who} {', '.join(names)}.", UnreadWarning, stacklevel=3)


def unread(drafters: Iterable[str], given: Iterable[str]) -> list[str]:
    """The options among the `given` settings that none of these drafters reads. An arm reads whatever its run has."""
    used = {name for drafter in drafters for name in find(drafter).uses}
    return [] if "arms" in used else [name for name in given if name in known_options() and name not in used]


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
        made = from_file(Path(file), name)
    plugin = plugin_of(made, "this program" if made is drafter else Path(file).name)
    if any(info is made for info in OWN):
        return plugin.name
    _refuse_taken(plugin)
    others = tuple(other for other in registered_plugins() if other.name != plugin.name)
    plugin_options(plugin, survey(others).options)
    plugin.give_head()
    register_plugin(plugin)
    return plugin.name


@lru_cache(maxsize=8)
def _taken(plugins: tuple[Plugin, ...]) -> dict[str, str]:
    """Why those with the name of a built-in drafter are left out; warns once of each."""
    refused = {}
    for plugin in plugins:
        try:
            _refuse_taken(plugin)
        except DraftscopeError as error:
            refused[plugin.name] = str(error)
            warn(f"{error} It was left out.", PluginWarning, stacklevel=3)
    return refused


def _refuse_taken(plugin: Plugin) -> None:
    if any(info.name == plugin.name for info in OWN):
        raise DraftscopeError(
            f"The drafter '{plugin.name}' of {plugin.source} has the name of a built-in one; give it another name."
        )


OWN: tuple[DrafterInfo, ...] = (
    plain.INFO,
    draft_model.CHAIN,
    draft_model.SAMPLED_TREE,
    draft_model.TOP_K_TREE,
    sequoia.DRAFT,
    recurrent.EAGLE3,
    recurrent.EAGLE3_SAMPLED_TREE,
    dynamic.EAGLE3_TREE,
    sequoia.EAGLE3,
    hybrid.INFO,
    recurrent.EAGLE,
    dynamic.EAGLE_TREE,
    positions.MEDUSA_CHAIN,
    positions.MEDUSA,
    recurrent.MTP,
    dynamic.MTP_TREE,
    positions.BLOCK,
    positions.BLOCK_TREE,
    positions.DSPARK,
    early_exit.INFO,
    cascade.INFO,
    slem.INFO,
    tli.INFO,
    ssd.INFO,
    ngram.INFO,
    suffix.CHAIN,
    suffix.TREE,
    lookahead.INFO,
    bandit.info(find),
    typed.INFO,
    oracle.INFO,
)
