"""The drafters that are here, and those that other packages add under the entry-point group `draftscope.drafters`."""

from __future__ import annotations

from difflib import get_close_matches
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from draftscope.base.errors import DraftscopeError
from draftscope.drafters import oracle, plain, typed
from draftscope.drafters.drafter import Drafter, DrafterInfo, Outcome, Parts, State, TextDraftModel
from draftscope.drafters.heads import dynamic, positions, recurrent
from draftscope.drafters.lookup import lookahead, ngram, suffix
from draftscope.drafters.model import cascade, draft_model, early_exit, ssd
from draftscope.drafters.policy import bandit, sequoia
from draftscope.drafters.text import slem, tli

__all__ = ["Drafter", "DrafterInfo", "Outcome", "Parts", "State", "TextDraftModel", "find", "known"]


def known() -> dict[str, DrafterInfo]:
    """Every drafter by name. A plug-in that does not load is named in the error, not skipped."""
    found = {info.name: info for info in OWN}
    for entry in installed():
        try:
            info = entry.load()
        except Exception as error:
            raise DraftscopeError(
                f"The drafter '{entry.name}' from {entry.value} does not load ({error}); mend or uninstall it."
            ) from error
        found[info.name] = info
    return found


@lru_cache(maxsize=1)
def installed() -> tuple[EntryPoint, ...]:
    """What installed packages add; looked up once, because it reads every package's metadata."""
    return tuple(entry_points(group="draftscope.drafters"))


def find(name: str) -> DrafterInfo:
    """The drafter of that name, or one sentence with the nearest names."""
    drafters = known()
    if name in drafters:
        return drafters[name]
    near = get_close_matches(name, drafters, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(drafters)}."
    raise DraftscopeError(f"There is no drafter '{name}'; {hint}")


OWN = (
    plain.INFO,
    draft_model.CHAIN,
    draft_model.SAMPLED_TREE,
    draft_model.TOP_K_TREE,
    sequoia.DRAFT,
    recurrent.EAGLE3,
    dynamic.EAGLE3_TREE,
    sequoia.EAGLE3,
    recurrent.EAGLE,
    dynamic.EAGLE_TREE,
    positions.MEDUSA_CHAIN,
    positions.MEDUSA,
    recurrent.MTP,
    dynamic.MTP_TREE,
    positions.BLOCK,
    positions.BLOCK_TREE,
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
