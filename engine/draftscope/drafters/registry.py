"""All drafters by name: those that are here, and those that other packages add (`plugins`)."""

from __future__ import annotations

from difflib import get_close_matches

from draftscope.base.errors import DraftscopeError
from draftscope.drafters import oracle, plain, plugins, typed
from draftscope.drafters.drafter import DrafterInfo
from draftscope.drafters.heads import dynamic, positions, recurrent
from draftscope.drafters.lookup import lookahead, ngram, suffix
from draftscope.drafters.model import cascade, draft_model, early_exit, ssd
from draftscope.drafters.policy import bandit, sequoia
from draftscope.drafters.text import slem, tli


def known() -> dict[str, DrafterInfo]:
    """Every drafter by name. A package whose drafter does not load is named in the error, not skipped."""
    found = {info.name: info for info in OWN}
    for entry in plugins.installed():
        info: DrafterInfo = plugins.loaded(entry)
        found[info.name] = info
    return found


def find(name: str) -> DrafterInfo:
    """The drafter of that name, or one sentence with the nearest names."""
    drafters = known()
    if name in drafters:
        return drafters[name]
    near = get_close_matches(name, drafters, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"known are {', '.join(drafters)}."
    raise DraftscopeError(f"There is no drafter '{name}'; {hint}")


def is_built_in(name: str) -> bool:
    """Whether the drafter of that name is one of this project's, which its tests prove, and no plug-in's."""
    return any(find(name) is info for info in OWN)


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
